"""Which CPU features the machine code of an x86-64 ELF file uses. Counts, no verdicts."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType

from iced_x86 import Code, CpuidFeature, Decoder, Formatter, FormatterSyntax, Instruction
from lief import ELF

from hostwheel.artifact.binary import open_elf
from hostwheel.artifact.symbols import SymbolMap, name_at
from hostwheel.errors import BadInput

# iced-x86's name → archspec's (/proc/cpuinfo's where archspec has none), where they differ by
# more than case. Checked against archspec 0.2.7 in the tests.
NAMES: Mapping[str, str] = MappingProxyType(
    {
        "AVX512_IFMA": "avx512ifma",
        "AVX512_VBMI": "avx512vbmi",
        "CMPXCHG16B": "cx16",
        "D3NOW": "3dnow",
        "D3NOWEXT": "3dnowext",
        "LZCNT": "abm",
        "MONITORX": "mwaitx",
        "SHA": "sha_ni",
    }
)

# Every x86-64 CPU has these.
BASELINE_NAMES = """
    INTEL8086 INTEL8086_ONLY INTEL186 INTEL286 INTEL286_ONLY INTEL386 INTEL386_ONLY
    INTEL386_A0_ONLY INTEL486 INTEL486_A_ONLY FPU FPU287 FPU287XL_ONLY FPU387 FPU387SL_ONLY
    X64 CMOV CX8 FXSR CPUID CLFSH MMX SSE SSE2 TSC MSR RDPMC SEP SYSCALL UMOV MOV_TR SMM
"""
BASELINE = frozenset(BASELINE_NAMES.split())

# Encoded so that a CPU without them does nothing, or what the code expects, in their place.
HARMLESS = frozenset(
    (
        "CET_IBT",  # endbr64: a long NOP
        "CET_SS",  # rdssp: a long NOP; the rest runs only where rdssp answered
        "CLDEMOTE",  # a hint in NOP space
        "HLE",  # xacquire and xrelease: ignored prefixes
        "HLE_OR_RTM",  # xtest: asked only inside a transaction
        "MPX",  # bnd…: long NOPs
        "MULTIBYTENOP",
        "PAUSE",  # rep nop
        "PREFETCHITI",  # hints in NOP space
        "PREFETCHW",  # a NOP on every 64-bit CPU without it
        "PREFETCHWT1",
    )
)

# tzcnt is emitted for any target: as bsf it gives the same for non-zero input.
# xgetbv reads what the system saves; code asks CPUID's OSXSAVE first.
NOT_COUNTED = frozenset(
    (Code.TZCNT_R16_RM16, Code.TZCNT_R32_RM32, Code.TZCNT_R64_RM64, Code.XGETBV)
)
QUESTIONS = (Code.CPUID, Code.XGETBV)

# archspec's alias: sse3 is often left out of a list that has ssse3.
IMPLIED_BY = MappingProxyType({"sse3": "ssse3"})

LONGEST_INSTRUCTION = 15


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    """How often a feature is used, and the first place: address, function and Intel syntax.

    `functions` counts by function name; it is empty, and `function` None, without symbols.
    """

    count: int
    address: int
    function: str | None
    text: str
    functions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sweep:
    """One linear pass over all executable bytes of a file.

    `questions` are the addresses of cpuid and xgetbv; `invalid` counts bytes that decode to
    nothing, a measure of data among the code.
    """

    used: Mapping[str, Use]
    instructions: int
    invalid: int
    questions: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """Executable bytes and the virtual address of the first."""

    address: int
    code: bytes


def used_features(path: Path, symbols: SymbolMap | None = None) -> Mapping[str, Use]:
    """Uses beyond the x86-64 baseline by feature; BadInput when no x86-64 ELF file."""
    return sweep(path, symbols).used


def beyond(used: Mapping[str, Use], allowed: Collection[str]) -> tuple[str, ...]:
    """The features used that are not among those allowed, sorted."""
    return tuple(
        sorted(
            name
            for name in used
            if name not in allowed and IMPLIED_BY.get(name, name) not in allowed
        )
    )


def sweep(path: Path, symbols: SymbolMap | None = None) -> Sweep:
    """Decode every executable byte of an x86-64 ELF file. About 6 million instructions a second."""
    blocks = tuple(executable(path))
    hits: dict[int, list[int]] = {code: [] for code in (*feature_table(), *QUESTIONS, Code.INVALID)}
    instructions = sum(note(block, hits) for block in blocks)
    places: defaultdict[str, list[int]] = defaultdict(list)
    for code, names in feature_table().items():
        for name in names:
            places[name] += hits[code]
    return Sweep(
        used={
            name: use(sorted(found), blocks, symbols)
            for name, found in sorted(places.items())
            if found
        },
        instructions=instructions,
        invalid=len(hits[Code.INVALID]),
        questions=tuple(sorted(address for code in QUESTIONS for address in hits[code])),
    )


def executable(path: Path) -> Iterator[Block]:
    """Executable sections by address; executable segments of a file without section headers."""
    elf = open_elf(path)
    if elf.header.machine_type != ELF.ARCH.X86_64:
        raise BadInput(f"{path}: machine {elf.header.machine_type.name}, expected x86-64")
    for section in sorted(elf.sections, key=lambda each: each.virtual_address):
        if section.size and section.has(ELF.Section.FLAGS.EXECINSTR):
            yield Block(address=section.virtual_address, code=bytes(section.content))
    if not len(elf.sections):
        for segment in elf.segments:
            if segment.has(ELF.Segment.FLAGS.X):
                yield Block(address=segment.virtual_address, code=bytes(segment.content))


def note(block: Block, hits: Mapping[int, list[int]]) -> int:
    """Add the address of each instruction with a noted code; return how many were decoded."""
    decoder = Decoder(64, block.code, ip=block.address)
    count = 0
    for instruction in decoder:
        count += 1
        if (sink := hits.get(instruction.code)) is not None:
            sink.append(instruction.ip)
            if instruction.code == Code.INVALID:
                # It takes a second byte along, which may begin a real instruction.
                decoder.ip = instruction.ip + 1
                decoder.position = decoder.ip - block.address
    return count


@cache
def feature_table() -> Mapping[int, tuple[str, ...]]:
    """iced-x86 code → features, of the codes that not every x86-64 CPU can do or do without."""
    features = {value: name for name, value in vars(CpuidFeature).items() if name.isupper()}
    table = {}
    instruction = Instruction()
    for code in (value for name, value in vars(Code).items() if name.isupper()):
        instruction.code = code
        names = {features[feature] for feature in instruction.cpuid_features()}
        if code not in NOT_COUNTED and (noted := names - BASELINE - HARMLESS):
            table[code] = tuple(NAMES.get(name, name.lower()) for name in sorted(noted))
    return MappingProxyType(table)


def use(addresses: Sequence[int], blocks: Sequence[Block], symbols: SymbolMap | None) -> Use:
    first = addresses[0]
    return Use(
        count=len(addresses),
        address=first,
        function=name_at(symbols, first) if symbols else None,
        text=text_at(first, blocks),
        functions=Counter(name_at(symbols, each) for each in addresses) if symbols else {},
    )


def text_at(address: int, blocks: Sequence[Block]) -> str:
    block = blocks[bisect_right(blocks, address, key=lambda each: each.address) - 1]
    offset = address - block.address
    code = block.code[offset : offset + LONGEST_INSTRUCTION]
    return Formatter(FormatterSyntax.INTEL).format(Decoder(64, code, ip=address).decode())
