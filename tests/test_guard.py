"""The guard of a CUDA package: its libraries and the driver, before anything of it is loaded."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hostwheel.build.project import cuda_guard, write_project
from tests.plans import COMPILERS, plan_for, upstream_source

CUDA = plan_for("a10g")
BUILD = "llama_cpp 0.3.36+cu130.sm86.avx2"
RUNTIME, CUBLAS = "libcudart.so.13", "libcublas.so.13"
ANY = "int any(void) { return 0; }\n"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site-packages with the package, whose CPU check is left out so that any machine will do."""
    source = upstream_source(tmp_path / "src")
    write_project(CUDA, source, tmp_path / "site", COMPILERS)
    init = tmp_path / "site" / "llama_cpp" / "hostwheel" / "__init__.py"
    init.write_text(init.read_text().replace("guard.check_cpu(VERSION, FEATURES)\n", ""))
    (tmp_path / "site" / "llama_cpp" / "lib").mkdir()  # RUNPATH goes through it
    return tmp_path / "site"


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """What LD_LIBRARY_PATH names: where a test puts drivers and libraries."""
    (tmp_path / "system").mkdir()
    return tmp_path / "system"


def library(file: Path, code: str = ANY) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    argv = ("gcc", "-shared", "-fPIC", f"-Wl,-soname,{file.name}", "-x", "c", "-", "-o", str(file))
    subprocess.run(argv, input=code, text=True, check=True)
    return file


def driver(folder: Path, version: int, status: int = 0) -> None:
    code = f"int cuDriverGetVersion(int *out) {{ *out = {version}; return {status}; }}\n"
    library(folder / "libcuda.so.1", code)


def hide(system: Path, *names: str) -> None:
    """The loader stops at the first file of a name, so one that this machine has is not found."""
    for name in names:
        (system / name).write_text("no library")


def cuda_libraries(folder: Path) -> None:
    library(folder / RUNTIME)
    library(folder / CUBLAS)


def said(site: Path, system: Path, code: str = "import llama_cpp") -> tuple[int, list[str]]:
    """Exit status, and what is on stderr."""
    env = {**os.environ, "LD_LIBRARY_PATH": str(system), "PYTHONPATH": str(site)}
    argv = (sys.executable, "-c", code)
    done = subprocess.run(argv, env=env, capture_output=True, text=True)
    assert (done.stdout == "mapped\n") == (done.returncode == 0)
    return done.returncode, done.stderr.splitlines()


def in_runpath(site: Path) -> Path:
    return site / "nvidia" / "cu13" / "lib"


def test_nothing_is_said_where_all_is_there(site: Path, system: Path) -> None:
    cuda_libraries(in_runpath(site))
    driver(system, 13000)
    assert said(site, system) == (0, [])


def test_libraries_of_the_system_will_do(site: Path, system: Path) -> None:
    cuda_libraries(system)
    driver(system, 13010)
    assert said(site, system) == (0, [])


def test_one_that_another_package_loaded_before_will_do(
    site: Path, system: Path, tmp_path: Path
) -> None:
    cuda_libraries(tmp_path / "torch")
    driver(system, 13000)
    loads = (
        f"import ctypes; [ctypes.CDLL('{tmp_path}/torch/' + name)"
        f" for name in ('{RUNTIME}', '{CUBLAS}')]; import llama_cpp"
    )
    assert said(site, system, loads) == (0, [])


def test_the_guard_does_not_load_what_lies_in_the_runpath(site: Path, system: Path) -> None:
    """Else it would win over LD_LIBRARY_PATH, which the loader asks first."""
    cuda_libraries(in_runpath(site))
    driver(system, 13000)
    shown = "import llama_cpp, sys; assert 'libcu' + 'dart' not in open('/proc/self/maps').read()"
    assert said(site, system, shown) == (0, [])


def test_missing_libraries_are_named_with_what_brings_them(site: Path, system: Path) -> None:
    driver(system, 13000)
    hide(system, RUNTIME, CUBLAS)
    code, lines = said(site, system)
    assert code == 1
    assert lines[-1] == (
        f"ImportError: {BUILD} needs {RUNTIME} and {CUBLAS} of CUDA, not found on this machine: "
        'pip install "nvidia-cuda-runtime>=13,<14" "nvidia-cublas>=13,<14"'
    )


def test_only_what_is_missing_is_named(site: Path, system: Path) -> None:
    driver(system, 13000)
    hide(system, CUBLAS)
    library(in_runpath(site) / RUNTIME)
    code, lines = said(site, system)
    assert code == 1
    assert lines[-1] == (
        f"ImportError: {BUILD} needs {CUBLAS} of CUDA, not found on this machine: "
        'pip install "nvidia-cublas>=13,<14"'
    )


def test_a_machine_without_a_driver_is_told_in_one_line(site: Path, system: Path) -> None:
    """B10: nobody has to guess why it is slow."""
    cuda_libraries(system)
    hide(system, "libcuda.so.1")
    assert said(site, system) == (
        0,
        [f"{BUILD}: no NVIDIA driver on this machine (libcuda.so.1 not found): running on the CPU"],
    )


@pytest.mark.parametrize(("version", "has"), [(12080, "12.8"), (12000, "12.0"), (11040, "11.4")])
def test_a_driver_below_the_floor_is_told_in_one_line(
    site: Path, system: Path, version: int, has: str
) -> None:
    cuda_libraries(system)
    driver(system, version)
    problem = (
        f"the NVIDIA driver is for CUDA {has} at most, "
        "this build needs CUDA 13, driver 580.65.06 or newer"
    )
    assert said(site, system) == (
        0,
        [f"{BUILD}: {problem}: running on the CPU"],
    )


def test_a_driver_that_does_not_work_is_told_in_one_line(site: Path, system: Path) -> None:
    """The stub that toolkits bring answers 34; another library has no such function."""
    cuda_libraries(system)
    driver(system, 0, status=34)
    start = f"{BUILD}: the NVIDIA driver does not work (cuDriverGetVersion: "
    assert said(site, system) == (0, [f"{start}34): running on the CPU"])
    library(system / "libcuda.so.1")
    assert said(site, system) == (0, [f"{start}-1): running on the CPU"])


def test_the_floor_is_that_of_the_plan() -> None:
    assert list(cuda_guard(CUDA))[-1] == "guard.note_driver(VERSION, '13.0', '580.65.06')"
    assert list(cuda_guard(plan_for("cpu-avx2"))) == []
