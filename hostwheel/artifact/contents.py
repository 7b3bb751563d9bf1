"""Open a wheel, an archive, a folder or a file: what is in it, and where it lies unpacked."""

import hashlib
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from hostwheel.artifact.facts import Contents, Kind, Member
from hostwheel.artifact.magic import (
    EMPTY_ZIP,
    HEAD,
    TAR_PACKERS,
    UNREAD_PACKERS,
    ZIP_MAGIC,
    is_tar,
)
from hostwheel.artifact.nested import may_hold_code
from hostwheel.artifact.safely import Gate, Limits, damaged
from hostwheel.artifact.tar import unpack_tar
from hostwheel.artifact.wheelfile import read_wheel
from hostwheel.artifact.zip import unpack_zip
from hostwheel.errors import BadInput


def open_artifact(path: Path, into: Path, limits: Limits | None = None) -> Contents:
    """Unpack `path` into the existing folder `into`; a folder or single file stays where it is.

    BadInput for what is damaged, leaves its folder, is there twice, is no file, is named like an
    archive and not empty, or unpacks to more than `limits` allow.
    """
    with damaged(path):
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            return read_folder(path, limits or Limits())
        if not stat.S_ISREG(mode):
            raise BadInput(f"{path}: neither a file nor a folder; give a wheel, archive or library")
        return read_packed(path, into, limits or Limits())


def read_packed(path: Path, into: Path, limits: Limits) -> Contents:
    gate = Gate(path, into, limits)
    kind = unpack(path, gate)
    members = tuple(gate.members)
    if not members and kind != "file":
        raise BadInput(f"{path}: holds no file; is the download complete?")
    return Contents(
        path=path,
        kind=kind,
        size=path.stat().st_size,
        sha256=sha256(path),
        members=members,
        nested=nested(members),
        links=gate.checked_links(),
        wheel=read_wheel(path.name, members) if kind == "wheel" else None,
    )


def unpack(path: Path, gate: Gate) -> Kind:
    """Unpack by what the file is, not by what its name says; only a wheel is known by its name."""
    with path.open("rb") as file:
        head = file.read(HEAD)
    for magic, name in UNREAD_PACKERS.items():
        if head.startswith(magic):
            raise BadInput(f"{path}: {name} is not read here; unpack it and give the folder")
    named_wheel = path.name.endswith(".whl")
    if head.startswith((ZIP_MAGIC, EMPTY_ZIP)) or named_wheel or path.suffix == ".zip":
        unpack_zip(path, gate)
        return "wheel" if named_wheel else "archive"
    if head.startswith(TAR_PACKERS) or is_tar(head) or ".tar" in path.suffixes:
        unpack_tar(path, gate)
        return "archive"
    gate.members.append(measured(path, path.name))
    return "file"


def read_folder(path: Path, limits: Limits) -> Contents:
    gate = Gate(path, path, limits)
    for found in walk(path):
        name = found.relative_to(path).as_posix()
        mode = found.lstat().st_mode
        if stat.S_ISLNK(mode):
            gate.link(name, str(found.readlink()))
        elif stat.S_ISREG(mode):
            gate.claim(name, found.stat().st_size)
            gate.members.append(measured(found, name))
        elif not stat.S_ISDIR(mode):
            raise gate.refused(name, "is a pipe, socket or device")
    if not gate.members:
        raise BadInput(f"{path}: an empty folder; nothing to audit")
    return Contents(
        path=path,
        kind="folder",
        size=sum(member.size for member in gate.members),
        sha256=None,
        members=tuple(gate.members),
        nested=nested(gate.members),
        links=gate.checked_links(),
        wheel=None,
    )


def walk(folder: Path) -> Iterator[Path]:
    """Everything below, in order; links to folders are not followed."""
    for path in sorted(folder.iterdir()):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from walk(path)


def nested(members: Iterable[Member]) -> tuple[str, ...]:
    return tuple(member.name for member in members if may_hold_code(member.path))


def measured(path: Path, name: str) -> Member:
    size = path.stat().st_size
    return Member(name=name, path=path, size=size, packed=None, sha256=sha256(path))


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
