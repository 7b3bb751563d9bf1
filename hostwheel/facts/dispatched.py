"""Code that asks the CPU before it uses a feature, function by function, each with its reason.

A `cpuid` somewhere in a file excuses nothing; an entry here names the functions that are guarded.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

ANY_FUNCTION = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Dispatched:
    """`file` is a pattern of the shell for the file's name, `feature` one that has to match whole.

    `functions` is searched for in the (mangled) name; "" is found in any, and in none known.
    `decided` is False where the code asks, but goes on only if the answer is yes: it stops with a
    message of its own and not with an illegal instruction, and does not run either.
    """

    file: str
    feature: str
    functions: str
    reason: str
    decided: bool = True


AVX_AND_UP = r"avx.*|fma4?|f16c|bmi[12]|abm|vaes|vpclmulqdq|gfni"
SSE_AND_UP = rf"s?sse.*|popcnt|movbe|pclmulqdq|aes|sha_ni|{AVX_AND_UP}"

DISPATCHED: tuple[Dispatched, ...] = (
    Dispatched(
        file="libmtmd.so*",
        feature="abm",
        functions=r"ma_dr_flac__",
        reason="miniaudio's FLAC decoder branches on ma_dr_flac__gIsLZCNTSupported, which it"
        " sets from CPUID, before each lzcnt",
    ),
    Dispatched(
        file="libstdc++*.so*",
        feature="rdrand|rdseed",
        functions=r"random_device|__x86_rd(rand|seed)",
        reason="std::random_device asks CPUID for rdrand and rdseed before it takes them",
    ),
    Dispatched(
        file="libatomic*.so*",
        feature="cx16|avx",
        functions=ANY_FUNCTION,
        reason="libatomic chooses its 16-byte operations by ifunc, from CPUID",
    ),
    Dispatched(
        file="libgfortran*.so*",
        feature=AVX_AND_UP,
        functions=ANY_FUNCTION,
        reason="libgfortran has one matmul for each of AVX, AVX2, AVX-512 and FMA4, and takes the"
        " one that libgcc's __cpu_model admits; the rest of it is compiled for any x86-64",
    ),
    Dispatched(
        file="libcrypto*",
        feature=".*",
        functions=ANY_FUNCTION,
        reason="OpenSSL's assembler reads OPENSSL_ia32cap_P, which it fills from CPUID when it is"
        " loaded, before each path beyond SSE2; and its tables lie among its code",
    ),
    Dispatched(
        file="lib*openblas*",
        feature=SSE_AND_UP,
        functions=r"_(PRESCOTT|NEHALEM|SANDYBRIDGE|HASWELL|ZEN|SKYLAKEX|COOPERLAKE|SAPPHIRERAPIDS"
        r"|CORE2|PENRYN|DUNNINGTON|ATOM|NANO|OPTERON|OPTERON_SSE3|BARCELONA|BOBCAT|BULLDOZER"
        r"|PILEDRIVER|STEAMROLLER|EXCAVATOR|KATMAI|COPPERMINE|NORTHWOOD|BANIAS)\b",
        reason="OpenBLAS (DYNAMIC_ARCH) names each kernel for the core it is for, and enters it"
        " through the gotoblas table that it chooses by CPUID when it is loaded",
    ),
    Dispatched(
        file="_multiarray_umath*",
        feature=SSE_AND_UP,
        functions=r"_(AVX512_?[A-Z]*|AVX2|FMA3?|F16C|SSE41|SSE42|X86_V[234])(\b|_|\d|[A-Z])"
        r"|N_AVX[23]|__svml_|AVX512_(SKX|SPR|ICL)|avx512|avx2",
        reason="numpy names each dispatched function for its feature, and enters it through"
        " __cpu_dispatch__ tables filled from CPUID when it is imported",
    ),
    Dispatched(
        file="_simd.*",
        feature=SSE_AND_UP,
        functions=r"_(AVX512_?[A-Z]*|AVX2|FMA3?|F16C|SSE41|SSE42|X86_V[234])",
        reason="numpy's test module of its SIMD layer offers only the targets that CPUID admits",
    ),
    *(
        Dispatched(
            file=file,
            feature=r"sse.*|ssse3|popcnt|cx16|lahf_lm",
            functions=ANY_FUNCTION,
            reason="numpy's baseline: it asks CPUID for all of it when it is imported, and raises"
            " a RuntimeError that names what is missing",
            decided=False,
        )
        for file in (
            *("_multiarray_*", "_simd.*", "_umath_*", "_struct_ufunc_tests*", "_rational_tests*"),
            *("_operand_flag_tests*", "_pocketfft_umath*", "lapack_lite*", "_bounded_integers*"),
            *("_common.*", "_generator.*", "bit_generator.*", "mtrand.*", "_mt19937.*"),
            *("_pcg64.*", "_philox.*", "_sfc64.*"),
        )
    ),
    Dispatched(
        file="*fbgemm*",
        feature=AVX_AND_UP,
        functions=ANY_FUNCTION,
        reason="FBGEMM enters its AVX2 and AVX-512 kernels only after cpuinfo said that they run",
    ),
    *(
        Dispatched(
            file=file,
            feature=SSE_AND_UP,
            functions=ANY_FUNCTION,
            reason="CUDA's host code is compiled for any x86-64 and asks CPUID beyond it",
        )
        for file in ("libcudart*", "libcublas*", "libcudnn*", "libnvrtc*", "libnvJitLink*")
    ),
)


@cache
def entries_for(file: str, feature: str) -> tuple[Dispatched, ...]:
    """What is known of a feature in a file of this name."""
    return tuple(
        entry
        for entry in DISPATCHED
        if fnmatchcase(file, entry.file) and re.fullmatch(entry.feature, feature)
    )


def known_dispatch(file: str, feature: str, function: str | None) -> Dispatched | None:
    """The entry that speaks of this function; decided ones come first."""
    found = [
        entry
        for entry in entries_for(file, feature)
        if entry.functions == ANY_FUNCTION
        or (function is not None and re.search(entry.functions, function))
    ]
    return min(found, key=lambda entry: not entry.decided, default=None)


def is_dispatched(file: str, feature: str, functions: Iterable[str]) -> bool:
    """Whether every one of `functions` in `file` is known to be guarded for `feature`."""
    names = tuple(functions)  # none known is no evidence
    return bool(names) and all(
        (entry := known_dispatch(file, feature, name)) is not None and entry.decided
        for name in names
    )
