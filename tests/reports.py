"""Reports as an audit would make them, by hand: a CPU wheel that does not fit, a CUDA wheel that
does, and the odd ones that a page must bear.
"""

from dataclasses import replace
from typing import Any

from hostwheel.artifact.facts import Image
from hostwheel.audit.result import FileReport, Finding, Fit, Floor, Report

LIB = "llama_cpp/lib/"
AVX512 = {
    "sse3": 40,
    "ssse3": 312,
    "sse4_1": 1204,
    "popcnt": 3,
    "avx": 31_407,
    "f16c": 218,
    "fma": 9_811,
    "bmi2": 2_350,
    "avx2": 15_022,
    "avx512f": 48_120,
    "avx512bw": 8_003,
    "avx512vl": 104_551,
    "avx512_vnni": 640,
    "avx512_bf16": 96,
    "amx_tile": 28,
    "amx_int8": 12,
}
HOSTS = (
    ("aws-g5", "AWS EC2 g5: NVIDIA A10G, AMD EPYC 7R32"),
    ("aws-p4d", "AWS EC2 p4d: NVIDIA A100, Intel Xeon Platinum 8275CL"),
    ("aws-p5", "AWS EC2 p5: NVIDIA H100, AMD EPYC 7R13"),
    ("x86-64-v2", "Any x86-64-v2 CPU (Nehalem, 2008, and newer)"),
    ("x86-64-v4", "Any x86-64-v4 CPU (Skylake-X, Zen 4, and newer)"),
)


def file_report(name: str, **changes: Any) -> FileReport:
    made = FileReport(
        name=name,
        format="ELF",
        machine="x86-64",
        size=821_856,
        instructions=182_110,
        features={},
        images=(),
        needed=("libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6"),
        runpath=("$ORIGIN",),
        versions={"GLIBC": "2.34", "GLIBCXX": "3.4.30"},
        build_id="0c881d5a42b841c60e2981553b1f362d1f4cf249",
    )
    return replace(made, **changes)


def refused(feature: str, function: str, instruction: str, at: int, count: int) -> Finding:
    return Finding(
        check="ISA001",
        standing="refused",
        message=f"{feature} is used without asking the CPU; aws-g5 does not have it",
        remedy="build it for this host (GGML_NATIVE=OFF and each option by name), or choose"
        " another wheel: hostwheel pick says which",
        file=f"{LIB}libggml-cpu.so",
        function=function,
        address=at,
        instruction=instruction,
        feature=feature,
        count=count,
    )


BARE = Report(
    artifact="notes-1.0-py3-none-any.whl",
    kind="wheel",
    size=1200,
    sha256="ab" * 32,
    auditor="hostwheel 0.1.0",
    target=None,
    verdict=None,
    floor=None,
    members=(("notes/__init__.py", 0, 2), ("notes-1.0.dist-info/METADATA", 410, 280)),
    files=(),
    findings=(),
    fits=tuple(Fit(host=h, title=t, verdict="fits", reasons=()) for h, t in HOSTS),
)

UNFIT = Report(
    artifact="llama_cpp_python-0.3.36-py3-none-manylinux_2_35_x86_64.whl",
    kind="wheel",
    size=6_821_440,
    sha256="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    auditor="hostwheel 0.1.0",
    target="aws-g5",
    verdict="unfit",
    floor=None,
    members=(
        (f"{LIB}libggml-base.so", 821_856, 340_042),
        (f"{LIB}libggml-cpu.so", 1_300_344, 472_732),
        (f"{LIB}libggml.so", 43_552, 15_531),
        (f"{LIB}libllama-common.so", 4_494_632, 1_725_239),
        (f"{LIB}libllama-server-impl.so", 3_061_552, 1_188_779),
        (f"{LIB}libllama.so", 3_926_832, 1_478_455),
        (f"{LIB}libmtmd.so", 1_560_624, 667_806),
        *((f"{LIB}llama-{name}", 14_864, 5_230) for name in ("bench", "quantize", "server")),
        ("llama_cpp/llama.py", 100_685, 19_590),
        ("llama_cpp/llama_chat_format.py", 178_966, 25_508),
        ("llama_cpp/llama_cpp.py", 189_135, 31_801),
        *((f"llama_cpp/server/part{n}.py", 2_849 * n, 1_056) for n in range(9)),
        ("llama_cpp_python-0.3.36.dist-info/METADATA", 35_734, 10_452),
        ("llama_cpp_python-0.3.36.dist-info/RECORD", 5_428, 2_708),
        ("llama_cpp_python-0.3.36.dist-info/licenses/LICENSE-llama.cpp", 1_078, 637),
    ),
    files=(
        file_report(f"{LIB}libggml-base.so"),
        file_report(f"{LIB}libggml-cpu.so", features=AVX512, size=1_300_344, instructions=224_101),
        file_report(f"{LIB}libllama.so", size=3_926_832),
        file_report(f"{LIB}libmtmd.so", features={"abm": 4}, size=1_560_624),
        file_report(f"{LIB}llama-server", size=14_864, needed=("libllama-server-impl.so",)),
    ),
    findings=(
        refused(
            "avx512f",
            "ggml_vec_dot_q4_K_q8_K",
            "vpxord zmm3,zmm3,zmm3",
            0x4F1A0,
            48_120,
        ),
        refused(
            "avx512_vnni",
            "_ZN12_GLOBAL__N_18tinyBLASILi16EDv16_fS1_ffE4gemmEll",
            "vpdpbusd zmm0,zmm1,zmmword ptr [rax+40h]",
            0x5120C,
            640,
        ),
        refused("avx512_bf16", "ggml_vec_dot_bf16", "vdpbf16ps zmm2,zmm4,zmm5", 0x6A110, 96),
        refused("amx_int8", "_ZL15tile_gemm_i8i8PKvS0_Pv", "tdpbusd tmm0,tmm1,tmm2", 0x7C3F0, 12),
        Finding(
            check="WHL002",
            standing="refused",
            message="libllama.so, libllama.so.0 and libllama.so.0.0.9 are the same bytes",
            remedy="install the library under its SONAME alone; wheels cannot hold links",
        ),
        Finding(
            check="ISA001",
            standing="dismissed",
            message="abm is used; aws-g5 has it, x86-64-v2 does not",
            remedy="",
            file=f"{LIB}libmtmd.so",
            function="ma_dr_flac__clz_lzcnt",
            address=0x1A40,
            instruction="lzcnt rax,rdi",
            feature="abm",
            count=4,
            reason="miniaudio asks CPUID before each lzcnt",
        ),
        Finding(
            check="ISA001",
            standing="undecided",
            message="avx2 is used; the file asks CPUID, but not provably for this function",
            remedy="run the smoke test on this host's CPU model",
            file=f"{LIB}libllama-common.so",
            function="0x88a10",
            address=0x88A1C,
            instruction="vpaddd ymm0,ymm0,ymm1",
            feature="avx2",
            count=11,
            reason="no symbol, and no ifunc points at it",
        ),
        Finding(
            check="ISA001",
            standing="not covered",
            message="machine code for aarch64 was not read",
            remedy="audit it on its own architecture",
            file="llama_cpp/lib/libextra-arm.so",
        ),
    ),
    fits=(
        Fit(
            host="aws-g5",
            title=HOSTS[0][1],
            verdict="unfit",
            reasons=("avx512f in libggml-cpu.so", "amx_int8 in libggml-cpu.so"),
        ),
        Fit(host="aws-p4d", title=HOSTS[1][1], verdict="unfit", reasons=("amx_int8",)),
        Fit(host="aws-p5", title=HOSTS[2][1], verdict="unfit", reasons=("avx512f",)),
        Fit(host="x86-64-v4", title=HOSTS[4][1], verdict="undecided", reasons=("avx2 …",)),
    ),
)


def cuda_image(sm: str, size: int) -> Image:
    return Image(
        kind="cubin", sm=sm, compressed=True, size=size, version="1.7", section=".nv_fatbin"
    )


FITS = replace(
    UNFIT,
    artifact="llama_cpp_python-0.3.36+cu130.sm86.avx2-py3-none-manylinux_2_35_x86_64.whl",
    verdict="fits",
    floor=Floor(driver="580.65.06", reason="sm_86 cubins of CUDA 13.0, ELF format 1.7"),
    members=(*UNFIT.members, (f"{LIB}libggml-cuda.so", 31_050_112, 29_004_100)),
    files=(
        *UNFIT.files,
        file_report(
            f"{LIB}libggml-cuda.so",
            size=31_050_112,
            images=tuple(cuda_image("86", 40_000 + n) for n in range(128)),
            needed=(
                *("libggml-base.so", "libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13"),
                *("libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6", "libdl.so.2"),
            ),
            runpath=("$ORIGIN", "$ORIGIN/../../nvidia/cu13/lib"),
        ),
    ),
    findings=tuple(f for f in UNFIT.findings if f.standing == "dismissed"),
    fits=(
        Fit(host="aws-g5", title=HOSTS[0][1], verdict="fits", reasons=()),
        *(
            Fit(host=host, title=title, verdict="unfit", reasons=("no machine code for its GPU",))
            for host, title in HOSTS[1:]
        ),
    ),
)

HOSTILE = "evil/<script>alert(1)</script>\"'\u202egnp.\x1b[31m\udcff.so"

LONG = "deep/" * 30 + "a" * 200 + ".so"


def many() -> Report:
    """Hundreds of members, libraries and findings."""
    names = [f"big/sub{n % 23}/module_{n:03}.cpython-311-x86_64-linux-gnu.so" for n in range(240)]
    return replace(
        UNFIT,
        artifact="big-1.0-cp311-cp311-manylinux_2_28_x86_64.whl",
        target=None,
        verdict=None,
        members=tuple((name, 3_000_000 // (n + 1), None) for n, name in enumerate(names)),
        files=tuple(
            file_report(name, features={"avx2": n + 1, "avx512f": n * n + 1})
            for n, name in enumerate(names)
        ),
        findings=tuple(
            replace(UNFIT.findings[n % 8], file=names[n % 60], function=f"function_{n}")
            for n in range(400)
        ),
    )


def awkward() -> Report:
    """Names that nobody should have, but somebody will."""
    finding = replace(
        UNFIT.findings[0], file=HOSTILE, function="_Z" + "9" * 3000, message=HOSTILE, reason=HOSTILE
    )
    return replace(
        UNFIT,
        artifact=HOSTILE + LONG,
        members=((HOSTILE, 5_000, 1), (LONG, 4_000, 1), ("漢字" * 40 + ".py", 9_000, None)),
        files=(file_report(HOSTILE, features={"<b>": 7}, needed=(HOSTILE,)), file_report(LONG)),
        findings=(finding, replace(finding, file=LONG)),
        fits=(Fit(host="aws-g5", title=HOSTILE, verdict="unfit", reasons=(LONG, HOSTILE)),),
    )


REPORTS = {"unfit": UNFIT, "fits": FITS, "bare": BARE, "many": many(), "awkward": awkward()}
