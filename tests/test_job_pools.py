"""The CMake project bounds nvcc by itself: a pool of ninja, from the environment."""

import os
import subprocess
from pathlib import Path

from hostwheel.build.engine import Jobs
from hostwheel.build.project import TEMPLATE
from tests.plans import BIN, need

# The part of the template that makes the pool, in a project whose ggml-cuda is C.
PROJECT = """\
cmake_minimum_required(VERSION 3.24)
project(pools LANGUAGES C)
add_library(ggml-cuda OBJECT cuda.c)
add_library(ggml OBJECT ggml.c)
{block}
"""


def pool_block() -> str:
    """From the template: `if(GGML_CUDA AND DEFINED ENV{…})` up to its `endif()`."""
    text = (TEMPLATE / "CMakeLists.txt").read_text()
    start = text.index("if(GGML_CUDA AND DEFINED ENV{HOSTWHEEL_CUDA_JOBS})")
    return text[start : text.index("endif()", start)] + "endif()"


def ninja_file(folder: Path, **variables: str) -> str:
    need("cmake", "pip install cmake")
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(PROJECT.format(block=pool_block()))
    for name in ("cuda.c", "ggml.c"):
        (folder / name).write_text("int x;\n")
    environment = {**os.environ, "PATH": f"{BIN}:/usr/bin:/bin", **variables}
    argv = ("cmake", "-G", "Ninja", "-S", ".", "-B", "build", "-DGGML_CUDA=ON")
    subprocess.run(argv, check=True, cwd=folder, env=environment)
    return (folder / "build" / "build.ninja").read_text()


def test_nvcc_has_a_pool_of_its_own(tmp_path: Path) -> None:
    bound = ninja_file(tmp_path / "bound", **Jobs(every=8, cuda=3).environment())
    pools = (tmp_path / "bound" / "build" / "CMakeFiles" / "rules.ninja").read_text()
    assert "pool cuda\n  depth = 3\n" in pools
    assert bound.count("  pool = cuda\n") == 1


def test_the_pool_changes_no_command(tmp_path: Path) -> None:
    """Else a machine with more memory would compile again, or differently."""
    commands = []
    for count in ("1", "2"):
        folder = tmp_path / "same"
        ninja_file(folder, HOSTWHEEL_CUDA_JOBS=count)
        argv = (str(BIN / "ninja"), "-C", str(folder / "build"), "-t", "commands")
        commands.append(subprocess.run(argv, check=True, capture_output=True).stdout)
        folder.rename(tmp_path / count)
    assert commands[0] == commands[1]


def test_without_the_variable_there_is_no_pool(tmp_path: Path) -> None:
    assert "pool = cuda" not in ninja_file(tmp_path / "free")
