"""What iced-x86's instruction codes mean to us: features, questions, what no program contains."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from iced_x86 import Code, CpuidFeature, FlowControl, Instruction, Mnemonic

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
QUESTIONS = frozenset((Code.CPUID, Code.XGETBV))

# Not the kernel's alone, and yet in no program of our time.
FOREIGN = frozenset(
    (
        *(Mnemonic.IN, Mnemonic.OUT, Mnemonic.INSB, Mnemonic.INSD, Mnemonic.OUTSB, Mnemonic.OUTSD),
        *(Mnemonic.IRETD, Mnemonic.IRETQ, Mnemonic.RETF, Mnemonic.INT1, Mnemonic.ENTER),
        *(Mnemonic.LSS, Mnemonic.LFS, Mnemonic.LGS, Mnemonic.XLATB, Mnemonic.FISTTP),
    )
)
NEVER_STRAY = frozenset(("D3NOW", "D3NOWEXT", "PADLOCK_ACE", "PADLOCK_PHE", "PADLOCK_RNG"))
LEAVING = frozenset(
    (FlowControl.RETURN, FlowControl.UNCONDITIONAL_BRANCH, FlowControl.INDIRECT_BRANCH)
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Kinds:
    """Sets of iced-x86's codes: features by code, and what is looked for beside them."""

    features: Mapping[int, tuple[str, ...]]
    noted: frozenset[int]
    implausible: frozenset[int]
    leaving: frozenset[int]


@cache
def code_kinds() -> Kinds:
    table = feature_table()
    instruction = Instruction()
    strange = frozenset(number(name) for name in NEVER_STRAY)
    implausible, leaving = {Code.INVALID}, set[int]()
    for code in all_codes():
        instruction.code = code
        if (
            instruction.is_privileged
            or instruction.mnemonic in FOREIGN
            or not strange.isdisjoint(instruction.cpuid_features())
        ):
            implausible.add(code)
        if instruction.flow_control in LEAVING:
            leaving.add(code)
    return Kinds(
        features=table,
        noted=frozenset((*table, *QUESTIONS, Code.INVALID)),
        implausible=frozenset(implausible),
        leaving=frozenset(leaving),
    )


@cache
def feature_table() -> Mapping[int, tuple[str, ...]]:
    """iced-x86 code → features, of the codes that not every x86-64 CPU can do or do without."""
    features = {value: name for name, value in vars(CpuidFeature).items() if name.isupper()}
    table = {}
    instruction = Instruction()
    for code in all_codes():
        instruction.code = code
        names = {features[feature] for feature in instruction.cpuid_features()}
        if code not in NOT_COUNTED and (noted := names - BASELINE - HARMLESS):
            table[code] = tuple(NAMES.get(name, name.lower()) for name in sorted(noted))
    return MappingProxyType(table)


def all_codes() -> Iterator[Any]:
    return (value for name, value in vars(Code).items() if name.isupper())


def number(feature: str) -> int:
    value: int = getattr(CpuidFeature, feature)
    return value
