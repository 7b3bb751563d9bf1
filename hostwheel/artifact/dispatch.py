"""What shows that code asks the CPU before it uses a feature, in one ELF file. Facts, no verdicts.

A question somewhere in a file excuses nothing. What counts is what binds a function to one:
the loader calls a resolver (an ifunc) that hands out one of several functions, or the compiler
made clones of a function with such a resolver (`target_clones`).
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from iced_x86 import Decoder, Mnemonic
from lief import ELF

from hostwheel.artifact.binary import text
from hostwheel.artifact.layout import Choice
from hostwheel.artifact.symbols import Function

# Imports that answer what the CPU can do: of GCC's and LLVM's runtime, C libraries, cpuinfo,
# OpenSSL, OpenCV, FFmpeg, Windows and macOS. Underscores in front are left out.
QUESTION = re.compile(
    r"cpu_model|cpu_features2|cpu_indicator_init|cpu_init|cpu_supports|x86_get_cpuid.*"
    r"|x86_get_cpu_features|getauxval|rtld_global_ro|cpuinfo_\w+|OPENSSL_ia32cap_?\w*"
    r"|\w*checkHardwareSupport\w*|av_get_cpu_flags|\w*cpu_detect|SDL_Has\w+"
    r"|IsProcessorFeaturePresent|isa_available|GetEnabledXStateFeatures|sysctlbyname|sysctl"
)

# A clone's suffix as GCC and Clang write it; what they split off it may follow.
CLONE = re.compile(
    r"(?P<base>.+?)\.(?P<target>arch_\w+|(?:avx|sse|ssse|fma|xop|bmi|popcnt|aes|pclmul|abm|lzcnt"
    r"|f16c|gfni|vpclmul|vaes|amx|sha)\w*)(?:\.\w+)*"
)


TAKING = frozenset(
    (Mnemonic.LEA, Mnemonic.MOV, *range(Mnemonic.CMOVA, Mnemonic.CMOVS + 1))  # CMOVcc are in a row
)

# Bytes.
LONGEST_RESOLVER = 1 << 14


def asks(names: Iterable[str]) -> bool:
    """Whether one of these imports answers what the CPU can do."""
    return any(QUESTION.fullmatch(name.lstrip("_").partition("@")[0]) for name in names)


def choices(elf: ELF.Binary, functions: tuple[Function, ...]) -> tuple[Choice, ...]:
    """All groups of functions of which the loader takes one by asking the CPU."""
    resolvers = dict(chosen(elf))
    return (*clones(functions, set(resolvers.values())), *resolved(elf, functions, resolvers))


def chosen(elf: ELF.Binary) -> Iterator[tuple[int, str]]:
    """(resolver's address, name of what it resolves) of each ifunc."""
    for relocation in elf.relocations:
        if relocation.type == ELF.Relocation.TYPE.X86_64_IRELATIVE:
            yield relocation.addend, hex(relocation.addend)
    for symbol in elf.symbols:
        if symbol.type == ELF.Symbol.TYPE.GNU_IFUNC and symbol.shndx != 0:
            yield symbol.value, text(symbol.name)


def clones(functions: Iterable[Function], resolved: set[str]) -> Iterator[Choice]:
    """Functions named as one with a target, where a resolver of that one is there."""
    by_name = {name: start for start, _, name in functions}
    groups: defaultdict[str, set[int]] = defaultdict(set)
    for name, start in by_name.items():
        if match := CLONE.fullmatch(name):
            groups[match["base"]].add(start)
    for base, members in sorted(groups.items()):
        rest = {by_name[name] for name in (f"{base}.default", base) if name in by_name}
        if base in resolved or f"{base}.resolver" in by_name:
            yield Choice(
                reason=f"target_clones: {base}.resolver chooses it by what the CPU has",
                functions=frozenset(members | rest),
            )


def resolved(
    elf: ELF.Binary, functions: tuple[Function, ...], resolvers: Mapping[int, str]
) -> Iterator[Choice]:
    """Functions whose addresses a resolver takes, two at least: with one it has no choice."""
    if not resolvers:
        return
    sizes = {start: size for start, size, _ in functions}
    slots = dict(pointers(elf))
    for resolver, name in sorted(resolvers.items()):
        size = min(sizes.get(resolver) or 0, LONGEST_RESOLVER)
        code = bytes(elf.get_content_from_virtual_address(resolver, size)) if size else b""
        taken = {slots.get(address, address) for address in operands(code, resolver)}
        members = frozenset(taken & sizes.keys() - {resolver})
        if len(members) > 1:
            yield Choice(
                reason=f"ifunc: the resolver of {name} chooses it by what the CPU has",
                functions=members,
            )


def operands(code: bytes, address: int) -> Iterator[int]:
    """Addresses that this code takes (lea) or loads from (mov), relative to itself."""
    for instruction in Decoder(64, code, ip=address):
        if instruction.is_ip_rel_memory_operand and instruction.mnemonic in TAKING:
            yield instruction.ip_rel_memory_address


def pointers(elf: ELF.Binary) -> Iterator[tuple[int, int]]:
    """(slot, function's address) of what the loader fills with a function of this file."""
    for relocation in elf.relocations:
        if relocation.type == ELF.Relocation.TYPE.X86_64_RELATIVE:
            yield relocation.address, relocation.addend
        elif relocation.has_symbol and relocation.symbol is not None and relocation.symbol.value:
            yield relocation.address, relocation.symbol.value + relocation.addend


def gated(
    functions: Iterable[Function], exports: Iterable[str], constructors: set[int]
) -> Mapping[int, str]:
    """A ggml backend that can be scored: all but the score itself and what runs before it."""
    if "ggml_backend_score" not in exports:
        return {}
    reason = "ggml backend variant: used only where its ggml_backend_score says yes"
    return {
        start: reason
        for start, _, name in functions
        if name != "ggml_backend_score" and start not in constructors
    }
