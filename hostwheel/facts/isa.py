"""CPU features, what each needs, and which ggml option compiles them in. Names are archspec's."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """One `GGML_*` switch of ggml 0.25's `ggml-cpu/CMakeLists.txt` (x86, not MSVC).

    `flags` are the compiler options it adds; `features` are what GCC may then use without asking,
    its own implications included (gcc/common/config/i386/i386-common.cc: SSE4.2 brings POPCNT,
    AVX brings XSAVE, which user code never executes and is therefore left out). A build with this
    option is sure to contain instructions of one of `proof` (with AVX, SSE code becomes AVX).
    """

    name: str
    label: str
    flags: tuple[str, ...]
    features: tuple[str, ...]
    proof: tuple[str, ...]


OPTIONS: tuple[Option, ...] = (
    Option(
        name="GGML_SSE42",
        label="sse42",
        flags=("-msse4.2",),
        features=("sse3", "ssse3", "sse4_1", "sse4_2", "popcnt"),
        proof=("ssse3", "avx"),
    ),
    Option(
        name="GGML_AVX",
        label="avx",
        flags=("-mavx",),
        features=("avx",),
        proof=("avx",),
    ),
    Option(
        name="GGML_F16C",
        label="f16c",
        flags=("-mf16c",),
        features=("avx", "f16c"),
        proof=("f16c",),
    ),
    Option(
        name="GGML_FMA",
        label="fma",
        flags=("-mfma",),
        features=("avx", "fma"),
        proof=("fma",),
    ),
    Option(
        name="GGML_BMI2",
        label="bmi2",
        flags=("-mbmi2",),
        features=("bmi2",),
        proof=("bmi2",),
    ),
    Option(
        name="GGML_AVX2",
        label="avx2",
        flags=("-mavx2",),
        features=("avx", "avx2"),
        proof=("avx2",),
    ),
    Option(
        name="GGML_AVX_VNNI",
        label="avxvnni",
        flags=("-mavxvnni",),
        features=("avx", "avx2", "avx_vnni"),
        proof=("avx_vnni",),
    ),
    Option(
        name="GGML_AVX512",
        label="avx512",
        flags=("-mavx512f", "-mavx512cd", "-mavx512vl", "-mavx512dq", "-mavx512bw"),
        features=("avx2", "avx512f", "avx512cd", "avx512vl", "avx512dq", "avx512bw"),
        proof=("avx512f",),
    ),
    Option(
        name="GGML_AVX512_VBMI",
        label="vbmi",
        flags=("-mavx512vbmi",),
        features=("avx512f", "avx512bw", "avx512vbmi"),
        proof=("avx512vbmi",),
    ),
    Option(
        name="GGML_AVX512_VNNI",
        label="vnni",
        flags=("-mavx512vnni",),
        features=("avx512f", "avx512_vnni"),
        proof=("avx512_vnni",),
    ),
    Option(
        name="GGML_AVX512_BF16",
        label="bf16",
        flags=("-mavx512bf16",),
        features=("avx512f", "avx512bw", "avx512_bf16"),
        proof=("avx512_bf16",),
    ),
    Option(
        name="GGML_AMX_TILE",
        label="amxtile",
        flags=("-mamx-tile",),
        features=("amx_tile",),
        proof=("amx_tile",),
    ),
    Option(
        name="GGML_AMX_INT8",
        label="amxint8",
        flags=("-mamx-int8",),
        features=("amx_tile", "amx_int8"),
        proof=("amx_int8",),
    ),
    Option(
        name="GGML_AMX_BF16",
        label="amxbf16",
        flags=("-mamx-bf16",),
        features=("amx_tile", "amx_bf16"),
        proof=("amx_bf16",),
    ),
)

# What a feature stands on, so that "AVX2 without AVX" in a host file is seen for the slip it is.
PREREQUISITES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "ssse3": ("sse3",),
        "sse4_1": ("ssse3",),
        "sse4_2": ("sse4_1", "popcnt"),
        "avx": ("sse4_2",),
        "avx2": ("avx",),
        "fma": ("avx",),
        "f16c": ("avx",),
        "vaes": ("avx", "aes"),
        "vpclmulqdq": ("avx", "pclmulqdq"),
        "avx_vnni": ("avx2",),
        "avx512f": ("avx2", "fma", "f16c"),
        "avx512cd": ("avx512f",),
        "avx512bw": ("avx512f",),
        "avx512dq": ("avx512f",),
        "avx512vl": ("avx512f",),
        "avx512ifma": ("avx512f",),
        "avx512vbmi": ("avx512bw",),
        "avx512_vbmi2": ("avx512bw",),
        "avx512_vnni": ("avx512f",),
        "avx512_bf16": ("avx512bw",),
        "avx512_bitalg": ("avx512bw",),
        "avx512_vpopcntdq": ("avx512f",),
        "avx512_fp16": ("avx512bw", "avx512dq", "avx512vl"),
        "amx_int8": ("amx_tile",),
        "amx_bf16": ("amx_tile",),
    }
)

# Each level is a build that people ask for by one name; what a host has beyond it is appended.
LEVELS: tuple[tuple[str, frozenset[str]], ...] = (
    (
        "avx512",
        frozenset(
            {
                "GGML_SSE42",
                "GGML_AVX",
                "GGML_F16C",
                "GGML_FMA",
                "GGML_BMI2",
                "GGML_AVX2",
                "GGML_AVX512",
            }
        ),
    ),
    (
        "avx2",
        frozenset({"GGML_SSE42", "GGML_AVX", "GGML_F16C", "GGML_FMA", "GGML_BMI2", "GGML_AVX2"}),
    ),
    ("avx", frozenset({"GGML_SSE42", "GGML_AVX"})),
    ("sse42", frozenset({"GGML_SSE42"})),
    ("sse2", frozenset()),
)


HASWELL = ("SSE42", "AVX", "F16C", "FMA", "AVX2", "BMI2")

# What `GGML_CPU_ALL_VARIANTS` builds for x86 Linux (ggml/src/CMakeLists.txt): tag → options.
VARIANTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "x64": (),
        "sse42": ("SSE42",),
        "sandybridge": ("SSE42", "AVX"),
        "ivybridge": ("SSE42", "AVX", "F16C"),
        "piledriver": ("SSE42", "AVX", "F16C", "FMA"),
        "haswell": HASWELL,
        "alderlake": (*HASWELL, "AVX_VNNI"),
        "skylakex": (*HASWELL, "AVX512"),
        "cannonlake": (*HASWELL, "AVX512", "AVX512_VBMI"),
        "cascadelake": (*HASWELL, "AVX512", "AVX512_VNNI"),
        "icelake": (*HASWELL, "AVX512", "AVX512_VBMI", "AVX512_VNNI"),
        "cooperlake": (*HASWELL, "AVX512", "AVX512_VNNI", "AVX512_BF16"),
        "zen4": (*HASWELL, "AVX512", "AVX512_VBMI", "AVX512_VNNI", "AVX512_BF16"),
        "sapphirerapids": (
            *(*HASWELL, "AVX512", "AVX512_VBMI", "AVX512_VNNI", "AVX512_BF16"),
            *("AMX_TILE", "AMX_INT8"),
        ),
    }
)


def variant_options(tag: str) -> tuple[Option, ...]:
    """The options of one of ggml's CPU variants."""
    names = {f"GGML_{name}" for name in VARIANTS[tag]}
    return tuple(option for option in OPTIONS if option.name in names)


def usable_options(features: Collection[str]) -> tuple[Option, ...]:
    """The options whose every compiled-in feature the host has."""
    return tuple(option for option in OPTIONS if set(option.features) <= set(features))


def compiled_in(options: Collection[Option]) -> tuple[str, ...]:
    """The features that code built with these options may use without asking, in table order."""
    wanted = {feature for option in options for feature in option.features}
    ordered = dict.fromkeys(feature for option in OPTIONS for feature in option.features)
    return tuple(feature for feature in ordered if feature in wanted)


def isa_label(options: Collection[Option]) -> tuple[str, ...]:
    """The instruction-set part of the wheel's label: a level, then what goes beyond it."""
    names = {option.name for option in options}
    level, inside = next((label, members) for label, members in LEVELS if members <= names)
    return (level, *(option.label for option in options if option.name not in inside))


def missing_prerequisites(features: Collection[str]) -> tuple[tuple[str, str], ...]:
    """Pairs (feature, prerequisite that is not listed)."""
    return tuple(
        (feature, needed)
        for feature in features
        for needed in PREREQUISITES.get(feature, ())
        if needed not in features
    )


# archspec's alias: sse3 is often left out of a list that has ssse3.
IMPLIED_BY = MappingProxyType({"sse3": "ssse3"})


def beyond(used: Collection[str], allowed: Collection[str]) -> tuple[str, ...]:
    """The features used that are not among those allowed, sorted."""
    return tuple(
        sorted(
            name
            for name in used
            if name not in allowed and IMPLIED_BY.get(name, name) not in allowed
        )
    )
