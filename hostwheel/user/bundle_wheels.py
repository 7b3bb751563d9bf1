"""What is known of each wheel in a bundle, from its name and its METADATA."""

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesHeaderParser
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

from hostwheel.artifact.contents import sha256
from hostwheel.artifact.safely import damaged
from hostwheel.errors import BadInput
from hostwheel.facts.versions import numeric
from hostwheel.publish.label import tagged_glibc

OURS = "llama-cpp-python"
SERVER = "llama_cpp/lib/llama-server"
NVIDIA = "nvidia-"
NAMED = {"manylinux1_x86_64": "2.5", "manylinux2010_x86_64": "2.12", "manylinux2014_x86_64": "2.17"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Wheel:
    """`size` and `unpacked` in bytes; `glibc` the lowest that its tags name, None for any.

    `name` and `requires` (the distributions that it asks for, on whatever condition) are
    normalised.
    """

    path: Path
    name: str
    version: Version
    sha256: str
    size: int
    unpacked: int
    glibc: str | None
    requires: frozenset[str]

    @property
    def is_nvidia(self) -> bool:
        return self.name.startswith(NVIDIA)


def read_wheels(folder: Path) -> tuple[Wheel, ...]:
    """Every wheel in `folder`, by name."""
    return tuple(sorted(map(read_wheel, folder.glob("*.whl")), key=lambda each: each.name))


def read_wheel(path: Path) -> Wheel:
    name, version, _, tags = parse_wheel_filename(path.name)
    with damaged(path), zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        asked = metadata(archive).get_all("Requires-Dist", ())
    return Wheel(
        path=path,
        name=name,
        version=version,
        sha256=sha256(path),
        size=path.stat().st_size,
        unpacked=sum(each.file_size for each in members),
        glibc=lowest_glibc(str(tag.platform) for tag in tags),
        requires=frozenset(canonicalize_name(Requirement(each).name) for each in asked),
    )


def lowest_glibc(platforms: Iterator[str]) -> str | None:
    levels = []
    for platform in platforms:
        if promised := tagged_glibc(platform):
            levels.append(promised)
        elif platform in NAMED:
            levels.append(NAMED[platform])
    return min(levels, key=numeric, default=None)


def check_ours(path: Path) -> None:
    """A renamed wheel is one that pip passes over and uv installs again and again. The server of a
    bundle is the one in the wheel: one copy, beside one copy of CUDA."""
    name, version, _, _ = parse_wheel_filename(path.name)
    with damaged(path), zipfile.ZipFile(path) as archive:
        said = metadata(archive)
        if SERVER not in archive.namelist():
            raise BadInput(f"{path.name} has no {SERVER}: build it with this hostwheel")
    if (canonicalize_name(said["Name"]), Version(said["Version"])) != (name, version):
        raise BadInput(
            f"{path.name} says inside that it is {said['Name']} {said['Version']}: it was renamed;"
            " take the file as it was built"
        )


def metadata(archive: zipfile.ZipFile) -> Message:
    inside = next(each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
    return BytesHeaderParser().parsebytes(archive.read(inside))
