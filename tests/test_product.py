"""The finished wheel against the plan: each check refuses its fault and nothing else."""

import dataclasses
import hashlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from hostwheel.build.project import SBOM
from hostwheel.errors import Refused
from hostwheel.facts.inside import BUILD_INFO
from tests.plans import BILL, LIB, link, runpath_of, text_files
from tests.products import CUDA, PLAN, built, changed, problems, speaking_of

pytest_plugins = ["tests.product_fixtures"]

INFO = f"llama_cpp_python-{PLAN.version}"
NVIDIA = "$ORIGIN/../../nvidia/cu13/lib"


def test_a_wheel_as_planned_passes(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    assert problems(tmp_path, files) == []


def test_a_cuda_wheel_as_planned_passes(tmp_path: Path, cuda_files: Mapping[str, bytes]) -> None:
    assert problems(tmp_path, cuda_files, CUDA) == []


def test_another_file_name_is_refused(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    name = PLAN.wheel.replace("+cpu.avx2", "+cpu.avx512")
    assert problems(tmp_path, files, name=name) == [
        f"the file is named {name}, planned is {PLAN.wheel}"
    ]


def test_a_wheel_renamed_to_carry_the_label_is_refused(
    tmp_path: Path, files: Mapping[str, bytes]
) -> None:
    """D9: METADATA and dist-info still have upstream's version."""
    binaries = {name: content for name, content in files.items() if name.startswith(LIB)}
    unlabelled = dataclasses.replace(PLAN, version=PLAN.source.version)
    found = problems(tmp_path, binaries | text_files(unlabelled))
    assert f"METADATA has version ['0.3.36'], planned is {PLAN.version}" in found
    assert "llama_cpp_python-0.3.36.dist-info/METADATA does not belong into the wheel" in found


def test_another_platform_tag_is_refused(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    """D1: linux_x86_64 claims nothing about glibc."""
    wheel = changed(files, f"{INFO}.dist-info/WHEEL", PLAN.platform_tag, "linux_x86_64")
    assert problems(tmp_path, wheel) == [
        f"WHEEL has tags ('py3-none-linux_x86_64',), planned is py3-none-{PLAN.platform_tag}"
    ]


def test_a_requirement_that_metadata_lacks_is_refused(
    tmp_path: Path, files: Mapping[str, bytes]
) -> None:
    plan = dataclasses.replace(PLAN, requires=("nvidia-cublas>=13,<14",))
    files = speaking_of(plan, files)
    assert problems(tmp_path, files, plan) == ["METADATA does not require nvidia-cublas<14,>=13"]
    required = "Name: llama_cpp_python\nRequires-Dist: nvidia-cublas<14,>=13\n"
    metadata = f"{INFO}.dist-info/METADATA"
    wheel = changed(files, metadata, "Name: llama_cpp_python\n", required)
    (tmp_path / "with").mkdir()
    assert problems(tmp_path / "with", wheel, plan) == []


@pytest.mark.parametrize(
    "name",
    [
        *("lib/libllama.so", "include/llama.h", f"{INFO}.data/scripts/llama-cli"),
        *("llama_cpp/lib/cmake/ggml.cmake", "llama_cpp/old/libllama.so", "llama_cpp/lib/libx.a"),
        *("llama_cpp/build-info.json", "llama_cpp/hostwheel/other.json"),
    ],
)
def test_a_file_that_nobody_planned_is_refused(
    tmp_path: Path, files: Mapping[str, bytes], name: str
) -> None:
    """F11"""
    found = problems(tmp_path, {**files, name: b"stray"})
    assert found == [f"{name} does not belong into the wheel"]


@pytest.mark.parametrize("library", ["libllama.so", "libggml-cpu.so", "libmtmd.so"])
def test_a_wheel_without_one_of_its_libraries_is_refused(
    tmp_path: Path, files: Mapping[str, bytes], library: str
) -> None:
    wheel = {name: content for name, content in files.items() if name != f"{LIB}/{library}"}
    assert f"{LIB}/{library} is missing" in problems(tmp_path, wheel)


@pytest.mark.parametrize("name", [BUILD_INFO, f"{INFO}.dist-info/{SBOM}"])
def test_a_wheel_that_does_not_speak_of_itself_is_refused(
    tmp_path: Path, files: Mapping[str, bytes], name: str
) -> None:
    wheel = {member: content for member, content in files.items() if member != name}
    assert problems(tmp_path, wheel) == [f"{name} is missing"]


def test_a_wheel_that_speaks_of_another_plan_is_refused(
    tmp_path: Path, files: Mapping[str, bytes]
) -> None:
    other = "0" * 64
    wheel = changed(files, BUILD_INFO, PLAN.hash, other)
    assert problems(tmp_path, wheel) == [f"{BUILD_INFO} says plan {other}, it is {PLAN.hash}"]


def test_a_wheel_with_another_sbom_than_it_says_is_refused(
    tmp_path: Path, files: Mapping[str, bytes]
) -> None:
    wheel = changed(files, f"{INFO}.dist-info/{SBOM}", "CycloneDX", "SPDX")
    (found,) = problems(tmp_path, wheel)
    assert found.startswith(f"{BUILD_INFO} says SBOM {hashlib.sha256(BILL).hexdigest()}, it is ")


@pytest.mark.parametrize("wrong", ["nvidia-cublas-cu12>=13,<14", "nvidia-cublas<13"])
def test_a_requirement_of_another_cuda_is_refused(
    tmp_path: Path, files: Mapping[str, bytes], wrong: str
) -> None:
    """C7, C8"""
    plan = dataclasses.replace(PLAN, requires=("nvidia-cublas>=13,<14",))
    metadata = f"{INFO}.dist-info/METADATA"
    required = f"Name: llama_cpp_python\nRequires-Dist: {wrong}\n"
    wheel = changed(files, metadata, "Name: llama_cpp_python\n", required)
    found = problems(tmp_path, wheel, plan)
    assert "METADATA does not require nvidia-cublas<14,>=13" in found
    assert any("which is not planned" in problem for problem in found)


def test_a_wheel_without_dist_info_is_refused(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    wheel = {name: content for name, content in files.items() if "dist-info" not in name}
    with pytest.raises(Refused, match="no dist-info"):
        problems(tmp_path, wheel)


def test_a_library_under_a_second_name_is_refused(
    tmp_path: Path, files: Mapping[str, bytes]
) -> None:
    """F12: what becomes of libllama.so.0 -> libllama.so in a wheel."""
    twin = {f"{LIB}/libllama.so.0": files[f"{LIB}/libllama.so"]}
    assert problems(tmp_path, {**files, **twin}) == [
        f"{LIB}/libllama.so.0 does not belong into the wheel",
        f"the same bytes several times: {', '.join(sorted((f'{LIB}/libllama.so', *twin)))}",
    ]


@pytest.mark.parametrize("folder", [LIB, f"{INFO}.data/scripts"])
def test_a_tool_without_program_or_script_is_refused(
    tmp_path: Path, files: Mapping[str, bytes], folder: str
) -> None:
    wheel = dict(files)
    del wheel[f"{folder}/llama-bench"]
    assert f"{folder}/llama-bench is missing" in problems(tmp_path, wheel)


# libraries


@pytest.mark.parametrize("runpath", ["/home/runner/work/build/bin:$ORIGIN", "/opt/lib", ""])
def test_a_runpath_that_is_not_planned_is_refused(
    tmp_path: Path, files: Mapping[str, bytes], runpath: str
) -> None:
    """C12, C13; none at all: C14."""
    found = tuple(runpath.split(":")) if runpath else ()
    wheel = {**files, **built(tmp_path, "libllama.so", runpath=runpath)}
    assert problems(tmp_path, wheel) == [
        f"libllama.so has RUNPATH {found}, planned is ('$ORIGIN',)"
    ]


def test_a_cpu_runpath_is_refused_in_a_cuda_wheel(
    tmp_path: Path, cuda_files: Mapping[str, bytes]
) -> None:
    """C3: it would not find the libraries of the nvidia wheels."""
    wheel = {**cuda_files, **built(tmp_path, "libggml.so")}
    assert problems(tmp_path, wheel, CUDA) == [
        f"libggml.so has RUNPATH ('$ORIGIN',), planned is ('$ORIGIN', '{NVIDIA}')"
    ]


# C4/C6 (the driver), C10 (NCCL), C18 (OpenMP), the build machine's OpenSSL, C1 in a CPU wheel
@pytest.mark.parametrize(
    "soname", ["libcuda.so.1", "libnccl.so.2", "libgomp.so.1", "libssl.so.3", "libcudart.so.13"]
)
def test_a_needed_library_that_nobody_provides_is_refused(
    tmp_path: Path, files: Mapping[str, bytes], soname: str
) -> None:
    assert problems(tmp_path, {**files, **needing(tmp_path, soname)}) == [
        f"libggml.so needs {soname}, which nobody provides"
    ]


def needing(folder: Path, soname: str) -> dict[str, bytes]:
    stub = link(folder / "stub.so", "", f"-Wl,-soname,{soname}", runpath="")
    return built(folder, "libggml.so", "", "-Wl,--no-as-needed", str(stub))


def test_a_library_of_the_wheel_that_is_left_out_is_refused(
    tmp_path: Path, files: Mapping[str, bytes]
) -> None:
    """C14, C20"""
    wheel = {name: content for name, content in files.items() if "libggml-base" not in name}
    assert "libllama.so needs libggml-base.so, which nobody provides" in problems(tmp_path, wheel)


def test_another_cuda_major_is_refused(tmp_path: Path, cuda_files: Mapping[str, bytes]) -> None:
    """C7: a CUDA 13 label on libraries of CUDA 12."""
    stub = link(tmp_path / "stub.so", "", "-Wl,-soname,libcudart.so.12", runpath="")
    flags = ("-Wl,--no-as-needed", str(stub))
    wheel = {**cuda_files, **built(tmp_path, "libggml.so", "", *flags, runpath=runpath_of(CUDA))}
    assert problems(tmp_path, wheel, CUDA) == [
        "libggml.so needs libcudart.so.12, which nobody provides"
    ]


def test_a_glibc_symbol_newer_than_the_host_is_refused(
    tmp_path: Path, files: Mapping[str, bytes]
) -> None:
    """D1, D3, D4: every program needs __libc_start_main@GLIBC_2.34."""
    old = dataclasses.replace(PLAN, host=dataclasses.replace(PLAN.host, glibc="2.17"))
    assert problems(tmp_path, speaking_of(old, files), old) == [
        f"{tool} needs GLIBC_2.34, host x86-64-v3 has 2.17"
        for tool in ("llama-server", "llama-bench", "llama-quantize", "llama-tokenize")
    ]


def test_a_libstdcxx_symbol_newer_than_the_host_is_refused(
    tmp_path: Path, files: Mapping[str, bytes]
) -> None:
    """D3; compared as numbers: 3.4.9 is older than 3.4.21."""
    append = "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE6appendEPKc"
    wheel = {**files, **built(tmp_path, "libllama.so", f"call {append}@PLT", "-lstdc++")}
    assert problems(tmp_path, wheel) == []
    old = dataclasses.replace(PLAN, host=dataclasses.replace(PLAN.host, glibcxx="3.4.9"))
    (tmp_path / "old").mkdir()
    assert problems(tmp_path / "old", speaking_of(old, wheel), old) == [
        "libllama.so needs GLIBCXX_3.4.21, host x86-64-v3 has 3.4.9"
    ]
