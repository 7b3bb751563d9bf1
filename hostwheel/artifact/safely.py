"""What an archive may do to the machine that opens it: nothing but write files into one folder."""

import errno
import hashlib
import lzma
import posixpath
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from hostwheel.artifact.facts import Member
from hostwheel.errors import BadInput, HostwheelError, MachineLacks

CHUNK = 1 << 20
LONGEST_PART = 255  # bytes of a name between slashes, on every common file system
NESTED = (
    *(".whl", ".zip", ".egg", ".conda", ".7z", ".rar", ".tar", ".tgz", ".tbz2", ".txz", ".tzst"),
    *(".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst", ".deb", ".rpm", ".apk"),
)

# What the standard library's readers raise where bytes were changed or cut off.
DAMAGE = (
    *(zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError, zlib.error, EOFError),
    *(ValueError, NotImplementedError, OverflowError, IndexError, RuntimeError, KeyError),
)

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """`bytes` unpacked in all, `members` in number; past `free` bytes, `ratio` to the packed size.

    The defaults hold torch's CUDA wheel (1.7 GB unpacked, 2 to 1); deflate alone reaches 1032 to 1.
    """

    bytes: int = 6 << 30
    members: int = 100_000
    ratio: int = 100
    free: int = 64 << 20


@contextmanager
def damaged(path: Path) -> Iterator[None]:
    """Turn what reading damaged input raises into BadInput."""
    try:
        yield
    except HostwheelError:
        raise
    except DAMAGE as error:
        raise BadInput(f"{path}: damaged or cut short ({error}); fetch it again") from None
    except OSError as error:
        # Without a number: gzip and bz2. EINVAL: a seek to before the beginning.
        if error.errno in (None, errno.EINVAL):
            raise BadInput(f"{path}: damaged or cut short ({error}); fetch it again") from None
        where = f"{error.filename or path}: {error.strerror}"
        if error.errno in NO_ROOM:
            raise MachineLacks(f"{where}; {path.name} needs room in TMPDIR") from None
        raise BadInput(f"{where}; check the path") from None


class Gate:
    """Every member passes here before a byte of it is written: name, size, number."""

    def __init__(self, archive: Path, into: Path, limits: Limits) -> None:
        self.archive, self.into, self.limits = archive, into, limits
        self.packed = archive.stat().st_size
        self.total = 0
        self.seen: dict[str, bool] = {}  # name → is it a folder
        self.members: list[Member] = []
        self.links: dict[str, str] = {}

    def claim(self, name: str, size: int) -> None:
        """Allow a file of this name and size, or raise BadInput."""
        self.use(name)
        if size and name.casefold().endswith(NESTED):
            raise self.refused(name, "is an archive inside; unpack it and audit it by itself")
        self.total += size
        if self.into != self.archive and self.total > self.allowed:
            raise self.bomb()

    @property
    def allowed(self) -> int:
        """How many bytes an archive of this size may unpack to."""
        limits = self.limits
        return min(limits.bytes, max(limits.free, limits.ratio * self.packed))

    def bomb(self) -> BadInput:
        return BadInput(
            f"{self.archive}: {self.packed} bytes that unpack to more than {self.allowed}: "
            "taken for a decompression bomb; refused"
        )

    def link(self, name: str, target: str) -> None:
        """Note a symbolic link. None is ever made on disk."""
        self.use(name)
        landing = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
        if target.startswith("/") or landing == ".." or landing.startswith("../"):
            raise self.refused(name, f"is a link out of it, to {target!r}")
        self.links[name] = target

    def checked_links(self) -> dict[str, str]:
        return dict(sorted(self.links.items()))

    def use(self, name: str) -> None:
        """Refuse a name that leaves the folder, is there twice, or is a file and a folder."""
        parts = name.split("/")
        if (
            "\\" in name
            or "\0" in name
            or not {"", ".", ".."}.isdisjoint(parts)
            or name[1:2] == ":"
        ):
            raise self.refused(name, "has a name that may leave the folder it is unpacked in")
        if max(len(part.encode(errors="surrogateescape")) for part in parts) > LONGEST_PART:
            raise self.refused(f"{name[:40]}…", "has a name too long for a file system")
        if name in self.seen:
            raise self.refused(name, "is there twice, or as a file and a folder")
        self.seen[name] = False
        for depth in range(1, len(parts)):
            if not self.seen.setdefault("/".join(parts[:depth]), True):
                raise self.refused(name, "lies below a name that is a file")
        if len(self.seen) > self.limits.members:
            raise BadInput(f"{self.archive}: more than {self.limits.members} members; refused")

    def save(self, source: IO[bytes], name: str, size: int, packed: int | None) -> None:
        """Write a claimed file, and note it."""
        path = self.into / name
        path.parent.mkdir(parents=True, exist_ok=True)
        digest = copy(source, path, size)
        self.members.append(Member(name=name, path=path, size=size, packed=packed, sha256=digest))

    def refused(self, name: str, why: str) -> BadInput:
        return BadInput(f"{self.archive}: member {name!r} {why}; refused")


def copy(source: IO[bytes], path: Path, size: int) -> str:
    """Write exactly `size` bytes and return their sha256; EOFError when there are fewer."""
    digest = hashlib.sha256()
    left = size
    with path.open("xb") as target:
        while left and (data := source.read(min(CHUNK, left))):
            target.write(data)
            digest.update(data)
            left -= len(data)
    if left:
        raise EOFError(f"{path.name} lacks {left} bytes")
    return digest.hexdigest()
