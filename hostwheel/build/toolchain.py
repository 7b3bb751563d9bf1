"""The compilers: a locked CUDA toolkit from the registry, and the machine's own gcc.

PATH, CUDA_HOME and CUDA_PATH are never asked for nvcc: what is on the machine must not leak in.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hostwheel.artifact.binary import read_binary
from hostwheel.build.folders import writing
from hostwheel.build.locked import install_as, install_locked, locked_versions
from hostwheel.errors import BadInput, MachineLacks, StepFailed
from hostwheel.facts.host import Host
from hostwheel.facts.versions import numeric
from hostwheel.plan.plan import Plan
from hostwheel.run import capture

__all__ = [
    "Compiler",
    "Toolkit",
    "check_gcc",
    "check_host_compiler",
    "check_runtime",
    "compiler_for",
    "cuda_toolkit",
    "host_compiler",
    "install_locked",
]

SYSTEM_PATH = "/usr/bin:/bin"
NVCC_SAYS = re.compile(r"release (\d+\.\d+), V(\d+\.\d+\.\d+)")

# NVIDIA's own header refuses a newer GCC; an older one is refused by CUB, which ggml-cuda uses.
NEWEST = ("include/crt/host_config.h", re.compile(r"^#if __GNUC__ > (\d+)$", re.MULTILINE))
OLDEST = (
    "include/cccl/cub/util_cpp_dialect.cuh",
    re.compile(r"_CCCL_COMPILER\(GCC, <, (\d+)\)"),
)

# What needs a GCC of its own, by compiler flag; and what every build needs.
OLDEST_GCC = {
    "-mavx512bf16": 10,
    "-mavxvnni": 11,
    "-mamx-tile": 11,
    "-mamx-int8": 11,
    "-mamx-bf16": 11,
}
EVERY_BUILD = (9, "std::filesystem without -lstdc++fs")
ADVISED_GCC = 12  # Debian 12 and Ubuntu 22.04 have it

# What llama.cpp uses too, and gets a newer version of where libc and libstdc++ have one.
PROBE = """\
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
int main(int argc, char ** argv) {
    std::string text = argv[argc - 1];
    int number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    text.replace(0, 1, argv[0]);
    std::cout << text << std::filesystem::exists(text);
    return number + std::strtol(text.c_str(), nullptr, 10);
}
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Toolkit:
    """A CUDA toolkit; `version` is nvcc's ('13.0.88'), `release` the toolkit's ('13.0')."""

    root: Path
    nvcc: Path
    version: str
    release: str
    packages: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiler:
    """The gcc and g++ of one GCC, by absolute path."""

    gcc: Path
    gxx: Path
    version: tuple[int, ...]
    version_text: str


def cuda_toolkit(lock: Path, target: Path) -> Toolkit:
    """Have the toolkit of `lock` with `target` as its root; an intact one is left alone.

    nvcc's output depends on this path, so it should be a fixed one. The caller holds the lock.
    """
    install_as(lock, target, arranged)
    nvcc = target / "bin" / "nvcc"
    release, version = nvcc_version(nvcc)
    return Toolkit(
        root=target, nvcc=nvcc, version=version, release=release, packages=locked_versions(lock)
    )


def arranged(installed: Path) -> Path:
    """The toolkit among installed wheels, with what CMake's FindCUDAToolkit looks for added."""
    roots = sorted(installed.glob("nvidia/cu[0-9]*"))
    if len(roots) != 1 or not (roots[0] / "bin" / "nvcc").is_file():
        found = ", ".join(path.name for path in roots) or "none"
        raise BadInput(
            f"a toolkit's lock file installs bin/nvcc below one nvidia/cu*; found {found}"
        )
    add_links(roots[0])
    return roots[0]


def add_links(root: Path) -> None:
    """Wheels hold no links: add lib64 and, for the linker, the unversioned lib*.so."""
    (root / "lib64").symlink_to("lib")
    for library in sorted((root / "lib").glob("lib*.so.*")):
        link = library.with_name(library.name.partition(".so.")[0] + ".so")
        if not link.is_symlink() and not link.exists():
            link.symlink_to(library.name)


def nvcc_version(nvcc: Path) -> tuple[str, str]:
    """What `nvcc --version` says, as ('13.0', '13.0.88')."""
    if not os.access(nvcc, os.X_OK):
        raise MachineLacks(
            f"{nvcc} may not be executed: its file system must not be mounted noexec "
            "(mount -o remount,exec)"
        )
    said = capture((str(nvcc), "--version"), env={"PATH": SYSTEM_PATH, "LC_ALL": "C"})
    match = NVCC_SAYS.search(said)
    if match is None:
        raise BadInput(f"{nvcc} --version does not say 'release X.Y, VX.Y.Z': {said}")
    return match[1], match[2]


def compiler_for(plan: Plan) -> Compiler:
    """This machine's GCC, where the plan has it, if it can build for the plan's host."""
    # Not the plan's PATH: its first folder is ours only after we have locked it.
    compiler = host_compiler(str(Path(plan.engine.environment["CXX"]).parent))
    check_gcc(compiler, plan)
    check_runtime(compiler, plan.host)
    return compiler


def host_compiler(path: str = SYSTEM_PATH) -> Compiler:
    """The GCC found on `path`; MachineLacks when there is none, or gcc and g++ differ."""
    gcc, gxx = found("gcc", path), found("g++", path)
    text, other = gcc_version(gcc), gcc_version(gxx)
    if text != other:
        raise MachineLacks(
            f"{gcc} is {text} but {gxx} is {other}: apt-get install gcc g++, of one version"
        )
    return Compiler(gcc=gcc, gxx=gxx, version=numeric(text), version_text=text)


def found(program: str, path: str) -> Path:
    where = shutil.which(program, path=path)
    if where is None:
        raise MachineLacks(f"no {program} in {path}: apt-get install g++")
    return Path(where).absolute()


def gcc_version(program: Path) -> str:
    try:  # -dumpversion is for GCC 6 and older, which do not know the other
        said = capture((str(program), "-dumpfullversion", "-dumpversion"), env={"LC_ALL": "C"})
    except StepFailed as error:
        raise MachineLacks(f"{program} is not GCC: apt-get install g++\n{error}") from None
    if not re.fullmatch(r"\d+(\.\d+)*", said.strip()):
        raise MachineLacks(f"{program} is not GCC, its version is {said!r}: apt-get install g++")
    return said.strip()


def check_gcc(compiler: Compiler, plan: Plan) -> None:
    """Refuse a GCC that is too old for the plan's flags."""
    flags = {flag for backend in plan.backends for flag in backend.flags}
    needs = ((OLDEST_GCC[flag], flag) for flag in sorted(flags & OLDEST_GCC.keys()))
    oldest, why = max(needs, default=EVERY_BUILD)
    if compiler.version[0] < oldest:
        raise MachineLacks(
            f"{compiler.gxx} is GCC {compiler.version_text}, too old: {plan.recipe} needs "
            f"GCC {oldest} or newer, for {why}: {install_gcc(ADVISED_GCC)}"
        )


def install_gcc(version: int) -> str:
    """The plan has /usr/bin/gcc and g++, whatever they point to."""
    return (
        f"apt-get install g++-{version}, and make gcc and g++ point to it:\n"
        f"    update-alternatives --install /usr/bin/gcc gcc /usr/bin/gcc-{version} 100 "
        f"--slave /usr/bin/g++ g++ /usr/bin/g++-{version}"
    )


def check_runtime(compiler: Compiler, host: Host) -> None:
    """Refuse a machine whose programs need newer libraries than the host has."""
    asked = probed(compiler)
    floors = {"GLIBC": host.glibc, "GLIBCXX": host.glibcxx}
    beyond = {
        name: version
        for name, floor in floors.items()
        if numeric(version := asked.get(name, "0")) > numeric(floor)
    }
    if beyond:
        found = " and ".join(f"{name}_{version}" for name, version in beyond.items())
        has = " and ".join(f"{name}_{floors[name]}" for name in beyond)
        raise MachineLacks(
            f"what {compiler.gxx} builds on this machine needs {found}; host {host.name} has "
            f"{has}: build on a machine no newer than the host (Debian 12 or Ubuntu 22.04), "
            "or take a host file with newer floors"
        )


def probed(compiler: Compiler) -> Mapping[str, str]:
    """The newest symbol versions that a small C++ program asks for, by prefix."""
    temporary = Path(tempfile.gettempdir())
    with writing(temporary), tempfile.TemporaryDirectory(prefix="hostwheel-") as folder:
        source, program = Path(folder, "probe.cpp"), Path(folder, "probe")
        source.write_text(PROBE)
        env = {"PATH": SYSTEM_PATH, "LC_ALL": "C", "TMPDIR": folder}
        try:
            capture((str(compiler.gxx), "-std=c++17", str(source), "-o", str(program)), env=env)
        except StepFailed as error:
            raise MachineLacks(
                f"{compiler.gxx} cannot build a small C++ program: apt-get install g++\n{error}"
            ) from None
        return read_binary(program).versions


def check_host_compiler(compiler: Compiler, toolkit: Toolkit) -> None:
    """Refuse a GCC that this nvcc does not take, by the bounds in the toolkit's own headers."""
    oldest, newest = bound(toolkit.root, *OLDEST), bound(toolkit.root, *NEWEST)
    if oldest <= compiler.version[0] <= newest:
        return
    word = "old" if compiler.version[0] < oldest else "new"
    raise MachineLacks(
        f"{compiler.gxx} is GCC {compiler.version_text}, too {word} for nvcc {toolkit.version}, "
        f"which takes GCC {oldest} to {newest}: {install_gcc(min(newest, ADVISED_GCC))}"
    )


def bound(root: Path, header: str, pattern: re.Pattern[str]) -> int:
    try:
        text = (root / header).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise BadInput(f"cannot read GCC's bounds in {root / header}: {error.strerror}") from None
    match = pattern.search(text)
    if match is None:
        raise BadInput(f"{root / header} has no line like {pattern.pattern!r}: no bound for GCC")
    return int(match[1])
