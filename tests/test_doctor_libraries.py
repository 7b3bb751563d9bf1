"""Libraries that a build needs, and other copies of it, in what doctor says."""

from dataclasses import replace
from pathlib import Path

import pytest

from hostwheel.user.doctor import diagnose
from hostwheel.user.doctor_build import Library
from tests.diagnosed import CUDART, G5, GOMP, TORCHS, foreign, found, only
from tests.users import build, case, copy, machine, site

# CUDA's libraries


def test_a_missing_cuda_library_stops_it() -> None:
    """C1, C2, C21"""
    finding = only(found(G5, build(cuda=(CUDART,))))
    assert finding.message == "libggml-cuda.so needs libcudart.so.13, and the loader finds none"
    assert finding.remedy == 'pip install "nvidia-cuda-runtime>=13,<14"'


def test_libraries_of_cuda_12_have_packages_of_their_own() -> None:
    """C2"""
    wanted = replace(CUDART, name="libcublas.so.12")
    finding = only(found(G5, build(cuda=(wanted,))))
    assert finding.remedy == 'pip install "nvidia-cublas-cu12"'


def test_another_major_version_is_named() -> None:
    """C7, C8"""
    near = (Path("/site/nvidia/cuda_runtime/lib/libcudart.so.12"),)
    told = found(G5, build(cuda=(replace(CUDART, near=near),)))
    assert only(told).message.endswith("finds none; there is libcudart.so.12")


def test_a_library_where_nothing_leads_is_named() -> None:
    """C3"""
    near = (Path("/site/nvidia/cu13/lib/libcudart.so.13"),)
    told = found(G5, build(cuda=(replace(CUDART, near=near),)))
    assert only(told).remedy == "export LD_LIBRARY_PATH=/site/nvidia/cu13/lib"


def test_where_a_library_comes_from_is_told() -> None:
    path = Path("/usr/local/cuda/lib64/libcudart.so.13")
    told = diagnose(case(G5, build(cuda=(replace(CUDART, path=path),))))
    assert only([each for each in told if each.check == "CUDA"]).message == (
        "libcudart.so.13 is /usr/local/cuda/lib64/libcudart.so.13"
    )


def test_a_wheels_dependency_brings_its_library() -> None:
    assert found(G5, build(cuda=(CUDART,)), copy=None) == []
    undeclared = build(cuda=(replace(CUDART, declared=False),))
    assert only(found(G5, undeclared, copy=None)).check == "CUDA"


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("libcuda.so.1", "install NVIDIA's driver, or"), ("libvulkan.so.1", "apt-file search libvu")],
)
def test_any_other_library_that_is_not_here_is_told(name: str, remedy: str) -> None:
    """C4"""
    lost = Library(name=name, user="libggml-x.so", path=None)
    finding = only(found(machine(), foreign(lost=(lost,))))
    assert finding.standing == "undecided"
    assert finding.message.startswith(f"libggml-x.so needs {name}, which is not here")
    assert finding.remedy.startswith(remedy)


# other copies


def test_a_second_copy_is_named() -> None:
    """A13"""
    both = (copy(), copy("/home/me/.local/llama_cpp", "llama_cpp_python 0.2.81"))
    finding = only(found(machine(), build("cpu-avx2"), site=site(copies=both)))
    assert finding.standing == "slows"
    assert "/home/me/.local/llama_cpp (llama_cpp_python 0.2.81); this one is" in finding.message
    assert finding.remedy == "pip uninstall llama_cpp_python"


def test_a_folder_that_nobody_installed_is_named() -> None:
    both = (copy(), copy("/work/llama_cpp"))
    both = (both[0], replace(both[1], owners=()))
    finding = only(found(machine(), build("cpu-avx2"), site=site(copies=both)))
    assert finding.remedy == "move it away"


def test_a_second_package_with_other_libraries_is_noted() -> None:
    """A13: llama_cpp and llama_cpp_cuda in one environment"""
    both = (copy(), copy("/site/llama_cpp_cuda", "llama_cpp_python_cuda 0.2.6"))
    finding = only(found(machine(), build("cpu-avx2"), site=site(copies=both)))
    assert finding.standing == "noted"
    assert "llama_cpp_cuda (llama_cpp_python_cuda 0.2.6) brings ggml's" in finding.message


def test_two_distributions_in_one_folder_stop_it() -> None:
    """A13"""
    mixed = copy("/site/llama_cpp", "llama_cpp_python 0.3.36", "llama-cpp-python-cuda 0.3.4")
    finding = only(found(machine(), build("cpu-avx2"), copy=mixed, site=site(copies=(mixed,))))
    assert finding.standing == "stops"
    assert "pip uninstall -y llama_cpp_python llama-cpp-python-cuda, then" in finding.remedy


# thread runtimes


def test_a_missing_openmp_runtime_stops_it() -> None:
    """C18"""
    finding = only(found(machine(), foreign(openmp=(replace(GOMP, path=None),))))
    assert (finding.standing, finding.remedy) == ("stops", "apt-get install libgomp1")
    assert finding.message == "libggml.so needs libgomp.so.1, which is not installed"


def test_a_second_openmp_runtime_is_told() -> None:
    """libgomp twice: the build's own and torch's"""
    finding = only(found(machine(), foreign(openmp=(GOMP,)), site=site(openmp=(TORCHS,))))
    assert finding.standing == "slows"
    assert f"in one process with {TORCHS} that is one too many" in finding.message


def test_our_builds_do_not_mind_torchs_runtime() -> None:
    assert found(machine(), build("cpu-avx2"), site=site(openmp=(TORCHS,))) == []


def test_a_grafted_runtime_is_its_own() -> None:
    graft = Path("/site/llama_cpp_python.libs/libgomp-a34b3233.so.1.0.0")
    of = foreign(openmp=(replace(GOMP, name=graft.name, path=graft),))
    assert only(found(machine(), of, site=site(openmp=(graft,)))).standing == "noted"
