"""Which of NVIDIA's wheels nothing in the bundle loads, by NEEDED of the files themselves."""

import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from tempfile import TemporaryDirectory

from hostwheel.artifact.binary import read_binary
from hostwheel.artifact.magic import is_elf
from hostwheel.artifact.safely import damaged
from hostwheel.user.bundle_wheels import OURS, Wheel


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """A wheel that nothing loads at its start. `opened_by` are libraries that hold its names: they
    may open it later (dlopen), for work that needs it."""

    wheel: Wheel
    opened_by: tuple[str, ...]


def unneeded(wheels: Sequence[Wheel], work: Path) -> tuple[LeftOut, ...]:
    """NVIDIA's wheels that the build does not load at its start, directly or through others.

    Whole wheels only: one with files taken out would no longer be NVIDIA's, nor have its hash.
    Those that another package of the user's requires are kept.
    """
    ours = next(each for each in wheels if each.name == OURS)
    candidates = [each for each in wheels if each.is_nvidia and not asked_by_others(each, wheels)]
    provided = providers(candidates)
    reached = reachable(ours, provided, work)
    kept = {provided[library].name for library in reached if library in provided}
    return tuple(
        LeftOut(wheel=each, opened_by=tuple(sorted(openers(each, provided, reached))))
        for each in candidates
        if each.name not in kept
    )


def openers(
    wheel: Wheel, provided: Mapping[str, Wheel], reached: Mapping[str, frozenset[str]]
) -> Iterator[str]:
    names = {library for library, brought in provided.items() if brought == wheel}
    yield from (library for library, named in reached.items() if named & names)


def asked_by_others(wheel: Wheel, wheels: Sequence[Wheel]) -> bool:
    others = (each for each in wheels if not each.is_nvidia and each.name != OURS)
    return any(wheel.name in each.requires for each in others)


def providers(wheels: Sequence[Wheel]) -> Mapping[str, Wheel]:
    """File name of each library → the wheel that brings it."""
    return {
        name.rpartition("/")[2]: wheel
        for wheel in wheels
        for name in members(wheel.path)
        if ".so" in name
    }


def members(path: Path) -> list[str]:
    with damaged(path), zipfile.ZipFile(path) as archive:
        return archive.namelist()


def reachable(
    ours: Wheel, provided: Mapping[str, Wheel], work: Path
) -> Mapping[str, frozenset[str]]:
    """What is loaded with our libraries, they among it → which of the provided each one names."""
    libraries = [name for name in members(ours.path) if name.startswith("llama_cpp/lib/")]
    waiting = [(ours.path, name) for name in libraries]
    seen: dict[str, frozenset[str]] = {}
    while waiting:
        path, member = waiting.pop()
        needed, named = asked(path, member, provided, work)
        seen[member.rpartition("/")[2]] = named
        for library in needed & provided.keys() - seen.keys():
            inside = members(provided[library].path)
            found = next(each for each in inside if each.endswith(f"/{library}"))
            waiting.append((provided[library].path, found))
    return seen


def asked(
    wheel: Path, member: str, provided: Iterable[str], work: Path
) -> tuple[frozenset[str], frozenset[str]]:
    """NEEDED of one file of a wheel, and the provided libraries whose names are in its bytes."""
    with TemporaryDirectory(dir=work) as folder:
        with damaged(wheel), zipfile.ZipFile(wheel) as archive:
            path = Path(archive.extract(member, folder))
        if not is_elf(path):
            return frozenset(), frozenset()
        needed = frozenset(read_binary(path).needed)
        with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
            named = {name for name in provided if content.find(name.encode()) >= 0}
        return needed, frozenset(named)
