"""The files of a bundle, packed or not, and what is one."""

import zipfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISLNK
from typing import IO, Protocol

from hostwheel.artifact.contents import walk
from hostwheel.artifact.magic import HEAD, ZIP_MAGIC
from hostwheel.artifact.safely import DAMAGE
from hostwheel.errors import BadInput, Refused
from hostwheel.publish.generations import HINT
from hostwheel.trust.sums import SUMS
from hostwheel.user.bundle_programs import STARTED
from hostwheel.user.carried.sums import SAID
from hostwheel.user.verify_zip import check_form

LIMIT_BYTES = 64 << 20  # of a list, a signature or a file of evidence


class Files(Protocol):
    """The files of a bundle by name."""

    @property
    def path(self) -> Path: ...
    def names(self) -> tuple[str, ...]: ...
    def open(self, name: str) -> IO[bytes]: ...


@dataclass(frozen=True, slots=True)
class Folder:
    path: Path

    def names(self) -> tuple[str, ...]:
        """Refused for a pipe or device, which may never end."""
        files = [each for each in walk(self.path) if each.is_symlink() or not each.is_dir()]
        names = {each.relative_to(self.path).as_posix(): each for each in files}
        if odd := next((name for name, each in names.items() if not each.is_file()), None):
            raise Refused(f"{odd} is no file, and bundles have nothing else")
        return tuple(names)

    def open(self, name: str) -> IO[bytes]:
        return (self.path / name).open("rb")


@dataclass(frozen=True, slots=True)
class Zip:
    path: Path
    archive: zipfile.ZipFile

    def names(self) -> tuple[str, ...]:
        """Refused where programs that unpack could make something else of the file."""
        members = self.archive.infolist()
        if link := next((each for each in members if S_ISLNK(each.external_attr >> 16)), None):
            raise Refused(f"{link.filename} is a link, and bundles have none")
        check_form(self.path, self.archive)
        return tuple(each.filename for each in members)

    def open(self, name: str) -> IO[bytes]:
        return self.archive.open(name)


def is_bundle(path: Path) -> bool:
    """A pipe or device is none, and is not read. BadInput for a zip file that cannot be opened."""
    if path.is_dir():
        return not (path / HINT).is_file() and looks_like_one(
            [each.name for each in path.iterdir()]
        )
    if not path.is_file() or path.suffix == ".whl":
        return False
    with path.open("rb") as file:
        is_zip = file.read(HEAD).startswith(ZIP_MAGIC) or zipfile.is_zipfile(file)
    if not is_zip:
        return False
    with opened(path) as archive:
        return looks_like_one(archive.namelist())


def looks_like_one(names: Collection[str]) -> bool:
    """Some of it may be lost."""
    return SAID in names or (SUMS in names and any(each in names for each in STARTED))


def opened(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except DAMAGE as error:
        raise BadInput(
            f"{path}: a damaged or cut-short zip file ({error}); fetch it again"
        ) from None


def read_whole(files: Files, name: str) -> bytes:
    """Refused for more than LIMIT_BYTES, and for what is damaged."""
    try:
        with files.open(name) as file:
            text = file.read(LIMIT_BYTES + 1)
    except DAMAGE as error:
        raise Refused(f"{name} is damaged: {error}") from None
    if len(text) > LIMIT_BYTES:
        raise Refused(f"{name} is larger than {LIMIT_BYTES:,} bytes, and read to there only")
    return text
