"""PLAN001 and PLAN002 on real projects, configured by the CMake that builds the wheels."""

import dataclasses
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from hostwheel.build.build import LOCAL, own_build_folder
from hostwheel.build.cmake import (
    Configured,
    check_configured,
    plan001,
    plan002,
    read_configured,
    unused_variables,
)
from hostwheel.build.engine import configure
from hostwheel.build.project import pyproject
from hostwheel.errors import Refused
from hostwheel.plan.plan import Plan
from tests.plans import need, plan_for, upstream_source

PLAN = plan_for("cpu-avx2")

# Reads what it is given as ggml does: as an option, as a plain variable, and through CMake itself.
PROJECT = """\
cmake_minimum_required(VERSION 3.24)
project(ggml LANGUAGES C)
option(GGML_AVX2 "as ggml has it" OFF)
option(GGML_NATIVE "as ggml has it" ON)
set(GGML_SCHED_MAX_COPIES "4" CACHE STRING "a text")
message(STATUS "${CMAKE_CUDA_ARCHITECTURES} ${HOSTWHEEL_RUNPATH}")
foreach(name ggml-cpu llama)
    file(WRITE ${CMAKE_BINARY_DIR}/${name}.c "int x;")
    add_library(${name} SHARED ${CMAKE_BINARY_DIR}/${name}.c)
endforeach()
"""
CONSUMED = {
    "GGML_AVX2": "ON",
    "GGML_NATIVE": "OFF",
    "GGML_SCHED_MAX_COPIES": "4",
    "CMAKE_CUDA_ARCHITECTURES": "86-real",
    "HOSTWHEEL_RUNPATH": "$ORIGIN;$ORIGIN/../../nvidia/cu13/lib",
    "CMAKE_C_FLAGS": "-ffile-prefix-map=/var/tmp/hostwheel=.",
}


@pytest.fixture(scope="session")
def cmake() -> str:
    """The test environment has the pinned one; it and ninja come from the registry."""
    need("ninja", "pip install ninja==1.13.2")
    return need("cmake", "pip install cmake==4.4.5")


def configured(cmake: str, folder: Path, given: Mapping[str, str], more: str = "") -> Configured:
    """PROJECT and `more`, configured with the arguments that the build would pass."""
    (folder / "CMakeLists.txt").write_text(PROJECT + more)
    ninja = need("ninja", "pip install ninja==1.13.2")
    tools = ("-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    document = pyproject(planned(given), upstream_source(folder / "src")).decode()
    args = tomllib.loads(document)["tool"]["scikit-build"]["cmake"]["args"]
    argv = (cmake, "-S", str(folder), "-B", str(folder / "build"), *tools, *args)
    done = subprocess.run(argv, check=True, text=True, capture_output=True)
    return read_configured(folder / "build", done.stdout + done.stderr)


def planned(defines: Mapping[str, str]) -> Plan:
    return dataclasses.replace(PLAN, defines=defines)


def test_defines_that_the_project_reads_pass(cmake: str, tmp_path: Path) -> None:
    """B14: the architecture is a plain variable, which leaves no type in the cache."""
    found = configured(cmake, tmp_path, CONSUMED)
    assert found.cache["CMAKE_CUDA_ARCHITECTURES"] == "86-real"
    assert {command["file"] for command in found.commands} == {
        str(tmp_path / "build" / name) for name in ("ggml-cpu.c", "llama.c")
    }
    check_configured(planned(CONSUMED), found)


def test_a_define_that_nothing_reads_is_refused(cmake: str, tmp_path: Path) -> None:
    """F6: what today's GGML_CUDA was called before, and a slip."""
    defines = {**CONSUMED, "LLAMA_CUBLAS": "ON", "GGML_AVX_2": "ON"}
    found = configured(cmake, tmp_path, defines)
    assert sorted(unused_variables(found.said)) == ["GGML_AVX_2", "LLAMA_CUBLAS"]
    with pytest.raises(Refused, match="PLAN001: LLAMA_CUBLAS is planned, but nothing in"):
        check_configured(planned(defines), found)


def test_a_define_that_nothing_reads_is_seen_again_in_a_used_build_folder(
    cmake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CMake says it only of a value that is new to its cache."""
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    monkeypatch.setattr("hostwheel.build.engine.build_folder", lambda plan: tmp_path / "build")
    env = {"PATH": f"{Path(cmake).parent}:/usr/bin:/bin"}
    monkeypatch.setattr("hostwheel.build.engine.environment", lambda plan, ours: env)
    plan = planned({**CONSUMED, "LLAMA_CUBLAS": "ON"})
    for time in ("first", "second"):
        log = tmp_path / f"{time}.log"
        own_build_folder(tmp_path / "build", LOCAL.objects)
        configure(plan, tmp_path, log)
        assert "LLAMA_CUBLAS" in unused_variables(log.read_text()), time


def test_the_rest_of_the_log_is_not_taken_for_names(cmake: str, tmp_path: Path) -> None:
    said = configured(cmake, tmp_path, {**CONSUMED, "LLAMA_CUBLAS": "ON"}).said
    log = f"*** Configuring CMake...\n{said}\n\n\n*** Building\n[1/2] GGML_CUDA\n\n\n"
    assert unused_variables(log) == ("LLAMA_CUBLAS",)


def test_a_warning_at_the_very_end_is_read(cmake: str, tmp_path: Path) -> None:
    said = configured(cmake, tmp_path, {**CONSUMED, "LLAMA_CUBLAS": "ON"}).said
    cut = said[: said.index("LLAMA_CUBLAS") + len("LLAMA_CUBLAS")]
    assert unused_variables(cut) == ("LLAMA_CUBLAS",)


def test_a_define_that_did_not_arrive_is_refused(cmake: str, tmp_path: Path) -> None:
    """F7, A1, A3: CMAKE_ARGS lost on the way leave ggml's defaults."""
    given = {name: value for name, value in CONSUMED.items() if name != "GGML_NATIVE"}
    found = configured(cmake, tmp_path, given)
    assert list(plan001(planned(CONSUMED), found)) == [
        "GGML_NATIVE is planned as 'OFF', but CMake's cache has 'ON'"
    ]


def test_a_define_that_the_project_overrules_is_refused(cmake: str, tmp_path: Path) -> None:
    """A14: a value forced into the cache."""
    force = 'set(GGML_AVX2 OFF CACHE BOOL "forced" FORCE)\n'
    found = configured(cmake, tmp_path, CONSUMED, force)
    assert list(plan001(planned(CONSUMED), found)) == [
        "GGML_AVX2 is planned as 'ON', but CMake's cache has 'OFF'"
    ]


def test_a_define_that_is_nowhere_is_refused(cmake: str, tmp_path: Path) -> None:
    found = configured(cmake, tmp_path, CONSUMED)
    assert list(plan001(planned({**CONSUMED, "GGML_CUDA": "ON"}), found)) == [
        "GGML_CUDA is planned as 'ON', but CMake's cache has None"
    ]


def flags_found(cmake: str, folder: Path, target: str, *flags: str) -> list[str]:
    """What PLAN002 says of a project whose `target` is compiled with these options."""
    options = f"target_compile_options({target} PRIVATE {' '.join(flags)})\n"
    found = configured(cmake, folder, CONSUMED, options)
    where = f" is not planned for {folder}/build/{target}.c"
    problems = list(plan002(PLAN, found))
    assert all(problem.endswith(where) for problem in problems)
    return [problem.removesuffix(where) for problem in problems]


def test_the_planned_flags_pass_in_the_cpu_backend(cmake: str, tmp_path: Path) -> None:
    assert "-mavx2" in PLAN.backends[0].flags
    assert (
        flags_found(cmake, tmp_path, "ggml-cpu", *PLAN.backends[0].flags, "-O3", "-fPIC", "-m64")
        == []
    )


@pytest.mark.parametrize("flag", ["-mavx2", "-msse4.2"])
def test_the_planned_flags_are_refused_anywhere_else(cmake: str, tmp_path: Path, flag: str) -> None:
    """A15"""
    assert flags_found(cmake, tmp_path, "llama", flag) == [flag]


# A1, A2, A6: what GGML_NATIVE adds; A14: options that are on by default; A16
@pytest.mark.parametrize(
    "flag", ["-march=native", "-mtune=native", "-mcpu=native", "-mavx512f", "-mavxvnni"]
)
@pytest.mark.parametrize("target", ["ggml-cpu", "llama"])
def test_a_flag_that_is_not_planned_is_refused(
    cmake: str, tmp_path: Path, target: str, flag: str
) -> None:
    assert flags_found(cmake, tmp_path, target, *PLAN.backends[0].flags, flag)[-1:] == [flag]


def test_planned_flags_that_cmake_did_not_pass_are_left_to_the_finished_files(
    cmake: str, tmp_path: Path
) -> None:
    """A21 is a fault that only the instructions show: see test_product_code."""
    assert flags_found(cmake, tmp_path, "ggml-cpu") == []


@pytest.mark.parametrize(
    "handed_on",
    ["-Xcompiler=-mavx2", "-Xcompiler=-fPIC,-mavx2", "-Xcompiler -mavx2", '-Xcompiler="-mavx2"'],
)
def test_a_flag_handed_through_nvcc_is_refused(handed_on: str) -> None:
    assert list(plan002(PLAN, compiled_by(f"nvcc -O3 {handed_on} -c fattn.cu"))) == [
        "-mavx2 is not planned for fattn.cu"
    ]


def test_other_options_of_nvcc_pass() -> None:
    argv = "sccache nvcc -forward-unknown-to-host-compiler --generate-code=arch=compute_86,code="
    found = compiled_by(f"{argv}sm_86 -Xcompiler=-ffile-prefix-map=/a=. -use_fast_math -m64")
    assert list(plan002(PLAN, found)) == []


def compiled_by(command: str) -> Configured:
    return Configured(cache={}, commands=({"file": "fattn.cu", "command": command},), said="")


def test_all_that_was_found_is_said_at_once(cmake: str, tmp_path: Path) -> None:
    found = configured(cmake, tmp_path, CONSUMED, "add_compile_options(-march=native)\n")
    found = dataclasses.replace(found, commands=compiled_by("gcc -march=native").commands)
    with pytest.raises(Refused) as refused:
        check_configured(planned({"GGML_NATIVE": "ON"}), found)
    assert str(refused.value).splitlines() == [
        "the build is not the planned one:",
        "  PLAN001: GGML_NATIVE is planned as 'ON', but CMake's cache has 'OFF'",
        "  PLAN002: -march=native is not planned for fattn.cu",
    ]
