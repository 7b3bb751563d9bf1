"""The compilers: a locked CUDA toolkit from the registry, and the machine's own gcc.

PATH, CUDA_HOME and CUDA_PATH are never asked for nvcc: what is on the machine must not leak in.
"""

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hostwheel.build.locked import install_as, install_locked, locked_versions
from hostwheel.errors import BadInput, MachineLacks, StepFailed
from hostwheel.run import capture

__all__ = [
    "Compiler",
    "Toolkit",
    "check_host_compiler",
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
    try:
        said = capture((str(nvcc), "--version"), env={"PATH": SYSTEM_PATH, "LC_ALL": "C"})
    except PermissionError:
        raise MachineLacks(
            f"{nvcc} may not be executed (file system mounted noexec?); use another work folder"
        ) from None
    match = NVCC_SAYS.search(said)
    if match is None:
        raise BadInput(f"{nvcc} --version does not say 'release X.Y, VX.Y.Z': {said}")
    return match[1], match[2]


def host_compiler(path: str = SYSTEM_PATH) -> Compiler:
    """The GCC found on `path`; MachineLacks when there is none, or gcc and g++ differ."""
    gcc, gxx = found("gcc", path), found("g++", path)
    text, other = gcc_version(gcc), gcc_version(gxx)
    if text != other:
        raise MachineLacks(
            f"{gcc} is {text} but {gxx} is {other}: apt-get install gcc g++, of one version"
        )
    version = tuple(int(part) for part in text.split("."))
    return Compiler(gcc=gcc, gxx=gxx, version=version, version_text=text)


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


def check_host_compiler(compiler: Compiler, toolkit: Toolkit) -> None:
    """Refuse a GCC that this nvcc does not take, by the bounds in the toolkit's own headers."""
    oldest, newest = bound(toolkit.root, *OLDEST), bound(toolkit.root, *NEWEST)
    if oldest <= compiler.version[0] <= newest:
        return
    word = "old" if compiler.version[0] < oldest else "new"
    raise MachineLacks(
        f"{compiler.gxx} is GCC {compiler.version_text}, too {word} for nvcc {toolkit.version}, "
        f"which takes GCC {oldest} to {newest}: apt-get install g++-{newest} (or an older one), "
        "and give its folder of gcc and g++"
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
