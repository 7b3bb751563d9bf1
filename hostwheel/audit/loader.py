"""Where ld.so looks for what an ELF file of an artifact needs (ld.so(8))."""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence

from hostwheel.artifact.facts import Artifact, File

INSTALLED = re.compile(r"^[^/]+\.data/(?:purelib|platlib)/")

# Library → the files that need it, and so may be what loads it.
Users = Mapping[str, Sequence[File]]


def elf_files(artifact: Artifact) -> Iterator[File]:
    return (file for file in artifact.files if file.native.format == "ELF")


def loaded_here(artifact: Artifact) -> tuple[File, ...]:
    """The ELF files that an x86-64 machine's loader takes."""
    return tuple(file for file in elf_files(artifact) if file.native.machine == "x86-64")


def place(file: File) -> str:
    """Where a member lies once it is installed."""
    return INSTALLED.sub("", file.member.name)


def search_path(file: File) -> tuple[str, ...]:
    """What the loader goes by: DT_RPATH counts only where there is no DT_RUNPATH."""
    return file.native.runpath or file.native.rpath


def searched(file: File) -> set[str]:
    """The folders of the artifact in which the loader looks for what a file needs."""
    origin = posixpath.dirname(place(file))
    found = set()
    for entry in search_path(file):
        tail = re.sub(r"^\$(ORIGIN|\{ORIGIN\})/?", "", entry)
        if tail != entry:
            found.add(posixpath.normpath(posixpath.join(origin, tail)).removeprefix("."))
    return found


def by_needed(artifact: Artifact) -> dict[str, list[File]]:
    users: dict[str, list[File]] = {}
    for file in loaded_here(artifact):
        for needed in file.native.needed:
            users.setdefault(needed, []).append(file)
    return users


def inherited(file: File, folders: set[str], users: Users) -> bool:
    """Whether one of `folders` is in a DT_RPATH on every way up from `file` to what nobody needs.

    For a file without DT_RUNPATH, DT_RPATH counts of what loaded it, of what loaded that, and so
    on.
    """
    if file.native.runpath:
        return False
    waiting, seen, led = [file], {file.member.name}, False
    while waiting:
        each = waiting.pop()
        if not each.native.runpath and not folders.isdisjoint(searched(each)):
            led = True
            continue
        above = loaders(each, users)
        if not above:
            return False
        waiting += [user for user in above if user.member.name not in seen]
        seen |= {user.member.name for user in above}
    return led


def loaders(file: File, users: Users) -> list[File]:
    names = {place(file).rpartition("/")[2], file.native.soname}
    return [user for name in names if name for user in users.get(name, ())]
