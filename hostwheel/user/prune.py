"""Which of NVIDIA's wheels nothing in the bundle loads, by NEEDED of the files themselves."""

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from hostwheel.artifact.binary import is_elf, read_binary
from hostwheel.artifact.safely import damaged
from hostwheel.user.bundle_wheels import OURS, Wheel


def unneeded(wheels: Sequence[Wheel], work: Path) -> tuple[Wheel, ...]:
    """NVIDIA's wheels that the build does not load at its start, directly or through others.

    Whole wheels only: one with files taken out would no longer be NVIDIA's, nor have its hash.
    What a library opens by itself later (dlopen) is not seen. Those that another package of the
    user's requires are kept.
    """
    ours = next(each for each in wheels if each.name == OURS)
    candidates = [each for each in wheels if each.is_nvidia and not asked_by_others(each, wheels)]
    reached = reachable(ours, providers(candidates), work)
    return tuple(each for each in candidates if each.name not in reached)


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


def reachable(ours: Wheel, provided: Mapping[str, Wheel], work: Path) -> set[str]:
    """The names of the wheels whose libraries are loaded with ours."""
    libraries = [name for name in members(ours.path) if name.startswith("llama_cpp/lib/")]
    waiting = [each for name in libraries for each in needed(ours.path, name, work)]
    seen: set[str] = set()
    while waiting:
        library = waiting.pop()
        if library in seen or library not in provided:
            continue
        seen.add(library)
        path = provided[library].path
        inside = next(each for each in members(path) if each.endswith(f"/{library}"))
        waiting.extend(needed(path, inside, work))
    return {provided[library].name for library in seen}


def needed(wheel: Path, member: str, work: Path) -> Iterator[str]:
    """The libraries that one file of a wheel asks for; none where it is no ELF file."""
    with TemporaryDirectory(dir=work) as folder:
        with damaged(wheel), zipfile.ZipFile(wheel) as archive:
            path = Path(archive.extract(member, folder))
        if is_elf(path):
            yield from read_binary(path).needed
