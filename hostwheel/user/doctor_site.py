"""What lies around an installed build: other copies of it, CUDA's libraries, OpenMP runtimes.

Nothing is imported: a build that does not fit may end the process.
"""

import csv
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

PACKAGES = "llama_cpp*/__init__.py"  # others ship it as llama_cpp_cuda and the like
OPENMP = re.compile(r"lib(gomp|iomp5|omp)([-.][\w.-]*)?\.so(\.\d+)*")
OPENMP_PLACES = ("*.libs/lib*omp*", "*/lib/lib*omp*", "*/.dylibs/lib*omp*", "../../lib*omp*")
LIBRARY = re.compile(r"\.so(\.\d+)*$")
SYSTEM_FOLDERS = tuple(
    map(Path, ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64"))
)
LDCONFIG = ("ldconfig", "/sbin/ldconfig", "/usr/sbin/ldconfig")
CACHED = re.compile(r"\s*(\S+) \([^)]*x86-64[^)]*\) => (.+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Copy:
    """A package llama_cpp that Python could import. `owners` are the distributions ("name
    version") that say they brought it; none for a folder that was only put there. `gone` are files
    of it, by RECORD, that are no longer there."""

    folder: Path
    owners: tuple[str, ...]
    gone: tuple[str, ...] = ()

    @property
    def site(self) -> Path:
        return self.folder.parent


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """`loader` are the folders of LD_LIBRARY_PATH, `cache` is ld.so's: file name → path.

    `openmp` are OpenMP runtimes that packages of this environment brought, links resolved.
    `visible` is CUDA_VISIBLE_DEVICES, None where it is not set.
    """

    folders: tuple[Path, ...]
    copies: tuple[Copy, ...]
    loader: tuple[Path, ...]
    cache: Mapping[str, str]
    openmp: tuple[Path, ...]
    visible: str | None


def read_site(folders: Sequence[Path], env: Mapping[str, str] = os.environ) -> Site:
    """`folders` are those that Python imports from, in order."""
    given = env.get("LD_LIBRARY_PATH", "")
    return Site(
        folders=tuple(folders),
        copies=tuple(copies(folders)),
        loader=tuple(Path(each) for each in given.split(":") if each),
        cache=loader_cache(),
        openmp=tuple(openmp_runtimes(folders)),
        visible=env.get("CUDA_VISIBLE_DEVICES"),
    )


def copies(folders: Iterable[Path]) -> Iterator[Copy]:
    """In the order in which Python looks; the first of a name is the one that it imports."""
    for site in dict.fromkeys(folders):
        if not site.is_dir():
            continue
        for init in sorted(site.glob(PACKAGES)):
            package = init.parent
            if package.name != "llama_cpp" and not any(package.rglob("*.so*")):
                continue  # another project's, such as llama_cpp_agent
            brought = dict(owners(site, package.name))
            gone = (
                name for names in brought.values() for name in names if not (site / name).exists()
            )
            yield Copy(folder=package, owners=tuple(brought), gone=tuple(gone))


def owners(site: Path, package: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """With the libraries that each brought. By RECORD, read here: `Distribution.files` of Python
    3.12 leaves out what is missing."""
    for found in metadata.distributions(path=[str(site)]):
        record = found.read_text("RECORD") or ""
        names = tuple(row[0] for row in csv.reader(record.splitlines()) if row)
        if f"{package}/__init__.py" in names:
            libraries = (name for name in names if LIBRARY.search(name))
            yield f"{found.metadata['Name']} {found.version}", tuple(libraries)


def openmp_runtimes(folders: Iterable[Path]) -> Iterator[Path]:
    seen = set()
    for site in folders:
        for place in OPENMP_PLACES if site.is_dir() else ():
            for path in sorted(site.glob(place)):
                real = path.resolve()
                if OPENMP.fullmatch(path.name) and real not in seen:
                    seen.add(real)
                    yield real


def loader_cache() -> Mapping[str, str]:
    """What ldconfig lists; empty where there is no ldconfig."""
    program = next(filter(None, map(shutil.which, LDCONFIG)), None)
    if program is None:
        return {}
    done = subprocess.run((program, "-p"), capture_output=True, text=True, errors="replace")
    matches = (CACHED.fullmatch(line) for line in done.stdout.splitlines())
    return {match[1]: match[2] for match in reversed([*filter(None, matches)])}


def located(name: str, runpath: Iterable[Path], site: Site) -> Path | None:
    """Where the loader finds a library (ld.so(8)): LD_LIBRARY_PATH, RUNPATH, cache, system."""
    for folder in (*site.loader, *runpath):
        if (folder / name).is_file():
            return folder / name
    if name in site.cache:
        return Path(site.cache[name])
    return next((each / name for each in SYSTEM_FOLDERS if (each / name).is_file()), None)


def elsewhere(stem: str, site: Site) -> tuple[Path, ...]:
    """Libraries of this stem ("libcudart") that lie in packages, whether the loader looks there or
    not, and whatever their version."""
    found = (path for folder in site.folders for path in folder.glob(f"nvidia/*/lib/{stem}.so.*"))
    return tuple(sorted(found))
