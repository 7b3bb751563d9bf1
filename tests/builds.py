"""Real builds for tests: made once a session, by the command line, in a hostile environment."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[1]

# What a machine may have lying about. Each would change or break a build that took it.
POISON = {
    "CC": "/nowhere/cc",
    "CXX": "/nowhere/c++",
    "CFLAGS": "-march=native",
    "CXXFLAGS": "-march=native",
    "CMAKE_ARGS": "-DGGML_NATIVE=ON",
    "CMAKE_PREFIX_PATH": "/nowhere",
    "CONDA_PREFIX": "/nowhere/conda",
    "CUDACXX": "/nowhere/nvcc",
    "CUDA_HOME": "/nowhere/cuda",
    "CUDA_PATH": "/nowhere/cuda",
    "LD_LIBRARY_PATH": "/nowhere/lib",
    "LIBRARY_PATH": "/nowhere/lib",
    "CPATH": "/nowhere/include",
    "SOURCE_DATE_EPOCH": "1",
    "PYTHONPATH": "/nowhere/python",
}
POISONED_TOOLS = ("cmake", "ninja", "nvcc", "gcc", "g++", "cc", "c++", "ld", "sccache", "ccache")


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """What `hostwheel build` left."""

    out: Path
    evidence: Mapping[str, Any]

    @property
    def wheel(self) -> Path:
        return self.out / "dist" / str(self.evidence["plan"]["wheel"])

    @property
    def archive(self) -> Path:
        return self.out / "dist" / str(self.evidence["plan"]["archive"])


def poisoned_environment(folder: Path) -> dict[str, str]:
    """Our environment with traps in it: each wrong tool fails loudly when it is called."""
    folder.mkdir()
    for name in POISONED_TOOLS:
        tool = folder / name
        tool.write_text(f"#!/bin/sh\necho poisoned {name} was called >&2\nexit 97\n")
        tool.chmod(0o755)
    return {**os.environ, **POISON, "PATH": f"{folder}:{os.environ['PATH']}"}


def build(recipe: str, folder: Path, *options: str) -> Built:
    """Run `hostwheel build` as a user would, from the checkout, and show what it says."""
    environment = poisoned_environment(folder / "poison")
    where = ("--out", str(folder / "out"))
    argv = (sys.executable, "-m", "hostwheel", "build", recipe, *where, *options)
    subprocess.run(argv, cwd=CHECKOUT, env=environment, check=True)
    out = folder / "out" / Path(recipe).stem
    return Built(out=out, evidence=json.loads((out / "build.json").read_text()))


@dataclass(frozen=True, kw_only=True, slots=True)
class Installed:
    """A fresh virtual environment with a wheel in it, used from an empty folder."""

    prefix: Path
    cwd: Path

    def run(
        self, *argv: str | Path, wrap: Sequence[str] = (), timeout: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """Run `bin/argv[0]` of the environment with next to nothing in the environment."""
        command = [*wrap, str(self.prefix / "bin" / str(argv[0])), *map(str, argv[1:])]
        clean = {"PATH": f"{self.prefix / 'bin'}:/usr/bin:/bin", "HOME": str(self.cwd)}
        return subprocess.run(
            command, cwd=self.cwd, env=clean, capture_output=True, text=True, timeout=timeout
        )


def install(wheel: Path, folder: Path) -> Installed:
    """Make a fresh environment with uv and install the wheel and its dependencies into it."""
    prefix, cwd = folder / "venv", folder / "elsewhere"
    cwd.mkdir(parents=True)
    uv = (sys.executable, "-m", "uv", "--quiet")
    subprocess.run((*uv, "venv", "--python", sys.executable, prefix), check=True)
    python = prefix / "bin" / "python"
    subprocess.run((*uv, "pip", "install", "--python", python, wheel), check=True)
    return Installed(prefix=prefix, cwd=cwd)
