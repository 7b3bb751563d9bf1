"""The project folder, and the guards in it on CPUs that fit and CPUs that do not."""

import ast
import dataclasses
import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from hostwheel.build.project import TEMPLATE, build_folder, guarded, write_project
from hostwheel.errors import Refused
from hostwheel.facts import cpuid, guard, inwheel
from hostwheel.plan.plan import Plan
from hostwheel.smoke.emulate import EMULATOR, emulated
from tests.plans import COMPILERS, need, plan_for, upstream_source

PLAN = plan_for("cpu-avx2")
CUDA = plan_for("a10g")
OLD_PYTHONS = sorted(Path.home().glob(".pyenv/versions/3.8*/bin/python"))

# What guard.c is linked with: a library that shows when it was initialised.
MAIN = '#include <stdio.h>\nint main(void) { puts("main"); return 0; }\n'
LIBRARY = """\
#include <unistd.h>
__attribute__((constructor)) static void early(void) { (void) !write(1, "constructor\\n", 12); }
"""
NEEDED = "sse3 ssse3 sse4_1 sse4_2 popcnt avx f16c fma bmi2 avx2"


@pytest.fixture
def src(tmp_path: Path) -> Path:
    return upstream_source(tmp_path / "src")


@pytest.fixture
def project(src: Path, tmp_path: Path) -> Path:
    write_project(PLAN, src, tmp_path / "project", COMPILERS)
    return tmp_path / "project"


@pytest.fixture
def _qemu() -> None:
    need(EMULATOR, "apt-get install qemu-user")


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_the_project_holds_upstreams_python_and_licences_and_ours(project: Path) -> None:
    upstream = {"README.md", "LICENSE-llama-cpp-python", "LICENSE-llama.cpp", "LICENSE-linenoise"}
    package = {"__init__.py", "py.typed", "server/app.py"}
    python = ("__init__.py", "__main__.py", "cpuid.py", "guard.py")
    added = {f"hostwheel/{name}" for name in (*python, "build-info.json")}
    ours = {"pyproject.toml", "CMakeLists.txt", "guard.c", "guard_features.h", "tool.in"}
    told = {"hostwheel.cdx.json"}
    there = {f"llama_cpp/{name}" for name in package | added}
    assert names(project) == upstream | ours | told | there
    assert (project / "CMakeLists.txt").read_bytes() == (TEMPLATE / "CMakeLists.txt").read_bytes()


def test_equal_files_keep_their_times(src: Path, project: Path) -> None:
    for path in project.rglob("*"):
        os.utime(path, (1, 1))
    (project / "guard.c").write_text("changed by hand")
    write_project(PLAN, src, project, COMPILERS)
    newer = {
        path.name for path in project.rglob("*") if path.is_file() and path.stat().st_mtime > 1
    }
    assert newer == {"guard.c"}
    assert (project / "guard.c").read_bytes() == (TEMPLATE / "guard.c").read_bytes()


def test_files_of_an_earlier_plan_are_removed(src: Path, project: Path) -> None:
    before = names(project)
    (project / "llama_cpp" / "stale.py").write_text("")
    (project / "llama_cpp" / "lib").mkdir()
    (project / "llama_cpp" / "lib" / "libllama.so").write_text("")
    write_project(PLAN, src, project, COMPILERS)
    assert names(project) == before


def test_the_version_and_requirements_of_the_plan_are_in_the_metadata(
    src: Path, tmp_path: Path
) -> None:
    """D9: the label is in METADATA from the start."""
    write_project(CUDA, src, tmp_path, COMPILERS)
    metadata = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    assert metadata == {
        "name": "llama_cpp_python",
        "version": "0.3.36+cu130.sm86.avx2",
        "readme": "README.md",
        "requires-python": ">=3.8",
        "dependencies": [
            "numpy>=1.20.0",
            "nvidia-cuda-runtime>=13,<14",
            "nvidia-cublas>=13,<14",
        ],
    }


def test_every_define_is_handed_on_without_a_type(project: Path) -> None:
    """F7; CMake says which variables nobody reads only of those without a type."""
    settings = tomllib.loads((project / "pyproject.toml").read_text())["tool"]["scikit-build"]
    args = [arg for arg in settings["cmake"]["args"] if arg.startswith("-D")]
    assert args == [f"-D{name}={value}" for name, value in PLAN.defines.items()]
    assert not any(":" in arg.partition("=")[0] for arg in args)


def test_the_other_settings_of_the_build(project: Path) -> None:
    """F11: the component holds our install rules only."""
    settings = tomllib.loads((project / "pyproject.toml").read_text())["tool"]["scikit-build"]
    assert settings["build-dir"] == str(build_folder(PLAN))
    assert settings["cmake"]["build-type"] == "Release"
    assert settings["build"]["targets"] == [*PLAN.libraries, *PLAN.tools]
    assert settings["install"] == {"components": ["hostwheel"], "strip": True}
    assert settings["wheel"]["license-files"] == ["LICENSE-*"]
    assert settings["wheel"]["force-include"] == {
        "hostwheel.cdx.json": "${SKBUILD_METADATA_DIR}/sboms/hostwheel.cdx.json"
    }


# The guard of the executables


def guarded_program(src: Path, folder: Path, plan: Plan) -> Path:
    """A program with guard.c in it and a library below it."""
    write_project(plan, src, folder, COMPILERS)
    (folder / "main.c").write_text(MAIN)
    (folder / "early.c").write_text(LIBRARY)
    gcc = ("gcc", "-Wall", "-Wextra", "-Werror", "-O2")
    library, program = folder / "libearly.so", folder / "program"
    early = ("-Wl,--no-as-needed", str(library), f"-Wl,-rpath,{folder}")
    compile_in(folder, *gcc, "-shared", "-fPIC", "early.c", "-o", str(library))
    compile_in(folder, *gcc, "guard.c", "main.c", *early, "-o", str(program))
    return program


def compile_in(folder: Path, *argv: str) -> None:
    subprocess.run(argv, check=True, cwd=folder)


def ran(argv: Sequence[str], folder: Path) -> tuple[int, str, str]:
    env = {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(argv, capture_output=True, text=True, env=env, cwd=folder)
    return done.returncode, done.stdout, done.stderr


def refusal(brand: str, lacking: str) -> str:
    return (
        f"llama.cpp 0.3.36+cpu.avx2 cannot run on this CPU ({brand}).\n"
        f"It was compiled for CPUs with: {NEEDED}.\n"
        f"This CPU, or the virtual machine around it, lacks: {lacking}.\n"
        "Install a build for this machine, for example one labelled cpu.any."
    )


def test_a_program_starts_on_a_cpu_that_has_what_it_needs(src: Path, tmp_path: Path) -> None:
    here = dataclasses.replace(PLAN, features=cpuid.Cpu().features)
    program = guarded_program(src, tmp_path / "project", here)
    assert ran((str(program),), tmp_path) == (0, "constructor\nmain\n", "")


def test_a_program_that_needs_nothing_starts(src: Path, tmp_path: Path) -> None:
    """The table of a baseline build is empty."""
    program = guarded_program(src, tmp_path / "project", dataclasses.replace(PLAN, features=()))
    assert ran((str(program),), tmp_path) == (0, "constructor\nmain\n", "")


@pytest.mark.usefixtures("_qemu")
def test_a_program_refuses_before_any_constructor_runs(src: Path, tmp_path: Path) -> None:
    program = guarded_program(src, tmp_path / "project", PLAN)
    code, out, said = ran(emulated((str(program),), "Westmere"), tmp_path)
    brand = "Westmere E56xx/L56xx/X56xx (Nehalem-C)"
    assert (code, out) == (3, "")
    assert said == refusal(brand, "avx f16c fma bmi2 avx2") + "\n"


# A19: a virtual machine that masks one feature; one that the build does not use is no reason.
@pytest.mark.usefixtures("_qemu")
@pytest.mark.parametrize(
    ("cpu", "lacking"),
    [
        ("EPYC-Rome", ""),
        ("EPYC-Rome,-movbe", ""),
        ("EPYC-Rome,-fma", "fma"),
        ("EPYC-Rome,-xsave", "avx f16c fma avx2"),  # the registers' state is not saved
    ],
)
def test_a_program_names_exactly_what_is_masked(
    src: Path, tmp_path: Path, cpu: str, lacking: str
) -> None:
    program = guarded_program(src, tmp_path / "project", PLAN)
    code, out, said = ran(emulated((str(program),), cpu), tmp_path)
    if lacking:
        assert (code, out) == (3, "")
        assert f"around it, lacks: {lacking}.\n" in said
    else:
        assert (code, out, said) == (0, "constructor\nmain\n", "")


# The guard of the Python package


def imported(project: Path, cpu: str) -> tuple[int, str, str]:
    """`import llama_cpp` on a CPU model; upstream's first own statement prints "mapped"."""
    return ran(emulated((sys.executable, "-c", "import llama_cpp"), cpu), project)


@pytest.mark.usefixtures("_qemu")
@pytest.mark.parametrize("cpu", ["EPYC-Rome", "EPYC-Rome,-movbe"])
def test_the_package_is_imported_on_a_cpu_that_fits(project: Path, cpu: str) -> None:
    assert imported(project, cpu) == (0, "mapped\n", "")


# A7, A9, A10, A17, A19
@pytest.mark.usefixtures("_qemu")
@pytest.mark.parametrize(
    ("cpu", "brand", "lacking"),
    [
        ("Westmere", "Westmere E56xx/L56xx/X56xx (Nehalem-C)", "avx f16c fma bmi2 avx2"),
        ("EPYC-Rome,-fma", "AMD EPYC-Rome Processor", "fma"),
    ],
)
def test_the_package_refuses_before_it_maps_anything(
    project: Path, cpu: str, brand: str, lacking: str
) -> None:
    code, out, said = imported(project, cpu)
    assert (code, out) == (1, "")
    assert said.endswith("ImportError: " + refusal(brand, lacking) + "\n")


def test_a_cpu_package_looks_for_no_library_of_cuda_and_no_driver(project: Path) -> None:
    init = (project / "llama_cpp" / "hostwheel" / "__init__.py").read_text()
    assert init.endswith("guard.check_cpu(VERSION, FEATURES)\n")


@pytest.mark.parametrize("module", [cpuid, guard, inwheel], ids=["cpuid", "guard", "inwheel"])
def test_what_goes_into_the_package_is_python_3_8(module: object) -> None:
    ast.parse(Path(str(vars(module)["__file__"])).read_text(), feature_version=(3, 8))


@pytest.mark.skipif(not OLD_PYTHONS, reason="needs ~/.pyenv/versions/3.8*")
def test_the_guard_runs_on_python_3_8(src: Path, tmp_path: Path) -> None:
    """The oldest that upstream's metadata allows."""
    write_project(
        dataclasses.replace(PLAN, features=cpuid.Cpu().features), src, tmp_path, COMPILERS
    )
    argv = (str(OLD_PYTHONS[0]), "-W", "error", "-c", "import llama_cpp")
    assert ran(argv, tmp_path) == (0, "mapped\n", "")


def test_the_guard_comes_first_and_the_label_is_the_version() -> None:
    init = guarded('from .llama_cpp import *\n\n__version__ = "0.3.36"\n')
    assert init.startswith("from .hostwheel import VERSION as __version__")
    assert "0.3.36" not in init
    assert "from .llama_cpp import *" in init


@pytest.mark.parametrize("text", ["", '__version__ = "1"\n__version__ = "2"\n'])
def test_a_package_without_one_plain_version_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="sets __version__"):
        guarded(text)
