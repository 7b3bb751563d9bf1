"""One pinned archive and its patches → a source tree that builds can share."""

import gzip
import os
import shutil
import tarfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from hostwheel.build.download import digest, fetch
from hostwheel.build.folders import is_intact, put, sibling, write_stamp, writing
from hostwheel.build.patches import apply_patches
from hostwheel.errors import BadInput
from hostwheel.plan.patches import Patch

__all__ = ["Prepared", "fetch", "prepare", "unpack"]

LIMIT_BYTES = 2 << 30
BLOCK = tarfile.BLOCKSIZE
DAMAGED = (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError)


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    src: Path
    archive_sha256: str
    patches: tuple[Patch, ...]
    reused: bool


def prepare(archive: Path, patches: Sequence[Patch], tree: Path, *, upstream: str) -> Prepared:
    """Have `tree/src` made of this archive and these patches, and `tree/source.json` say so.

    An intact one is left alone, file times included. Otherwise all of `tree` is made anew, build
    folders too: ninja does not notice a file that went back in time. The caller holds the lock,
    which must not lie in `tree`.
    """
    sha256 = digest(archive)
    inputs = {"archive": sha256, "patches": [[patch.name, patch.sha256] for patch in patches]}
    reused = is_intact(tree / "source.json", inputs, tree / "src")
    if not reused:
        fresh = sibling(tree, "new")
        try:
            unpack(archive, fresh / "src")
            apply_patches(patches, fresh / "src", upstream=upstream)
            with writing(fresh):
                write_stamp(fresh / "source.json", inputs, fresh / "src")
                put(fresh, tree)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return Prepared(src=tree / "src", archive_sha256=sha256, patches=tuple(patches), reused=reused)


class Limited(gzip.GzipFile):
    """An unzipped archive that may be read up to a limit in bytes."""

    def __init__(self, archive: Path, limit: int) -> None:
        super().__init__(archive, "rb")
        self.archive, self.limit = archive, limit
        self.total, self.last = 0, b""

    def read(self, size: int | None = -1) -> bytes:
        self.last = super().read(size)
        self.total += len(self.last)
        self.refuse_over(self.total)
        return self.last

    def expect(self, member: tarfile.TarInfo) -> None:
        """Refuse a member by the size in its header, before a byte of it is written."""
        self.refuse_over(member.offset_data + member.size)

    def refuse_over(self, size: int) -> None:
        if size > self.limit:
            raise BadInput(f"{self.archive} unpacks to more than {self.limit} bytes; refused")


def unpack(archive: Path, into: Path, *, limit_bytes: int = LIMIT_BYTES) -> None:
    """Unpack a .tar.gz without its one top-level folder and without any `.git`; keep file times.

    All or nothing; what was at `into` is replaced. BadInput for damage, more than `limit_bytes`
    unpacked, links, devices, names that leave the folder or are one on some file system.
    """
    fresh = sibling(into, "unpacking")
    try:
        with writing(fresh):
            fresh.mkdir(parents=True)
            extract(archive, fresh, limit_bytes)
            put(fresh, into)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def extract(archive: Path, into: Path, limit_bytes: int) -> None:
    try:
        with Limited(archive, limit_bytes) as data:
            # Block by block, so that the last block read is the one at which tarfile stopped.
            with tarfile.open(fileobj=data, mode="r|", bufsize=BLOCK, errorlevel=1) as tar:
                extract_members(tar, data, into)
            if any(data.last):
                raise tarfile.ReadError("a member's header is broken")
            while data.read(1 << 20):  # gzip checks its CRC at the end only
                pass
    except DAMAGED as error:
        raise BadInput(f"{archive} is damaged or no .tar.gz ({error}); fetch it again") from None


def extract_members(tar: tarfile.TarFile, data: Limited, into: Path) -> None:
    names = Names(data.archive)
    for member in tar:
        path = names.claim(member)
        data.expect(member)
        if path is not None:
            write_member(tar, member, into / path)
    if not names.members:
        raise tarfile.ReadError("it holds no file")


def write_member(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    """Of a member's attributes its time and whether it is a program, and no more.

    By hand: tarfile's own filter "data" came with 3.11.4, and Debian 12 has 3.11.2.
    """
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    content = tar.extractfile(member)
    assert content is not None, "a file: see Names.plain"
    with target.open("xb") as file:
        shutil.copyfileobj(content, file)
    target.chmod(0o755 if member.mode & 0o100 else 0o644)
    os.utime(target, (member.mtime, member.mtime))


class Names:
    """The names of an archive so far, each of which may be used once, whatever its case."""

    def __init__(self, archive: Path) -> None:
        self.archive = archive
        self.top = ""
        self.members: set[str] = set()
        self.paths: dict[str, tuple[str, bool]] = {}  # folded: as spelled first, is it a folder

    def claim(self, member: tarfile.TarInfo) -> PurePosixPath | None:
        """Where the member goes, below the top-level folder; None for that folder and `.git`."""
        parts = self.plain(member)
        if self.top not in ("", parts[0]) or (len(parts) == 1 and not member.isdir()):
            raise self.refused(member, "outside the archive's one top-level folder")
        self.top = parts[0]
        self.use(member, parts)
        if len(parts) == 1 or ".git" in parts:
            return None
        return PurePosixPath(*parts[1:])

    def plain(self, member: tarfile.TarInfo) -> tuple[str, ...]:
        """The parts of its name, if it is a file or folder with a relative name."""
        if not (member.isdir() or member.type in (tarfile.REGTYPE, tarfile.AREGTYPE)):
            raise self.refused(member, "neither a file nor a folder (links are refused)")
        parts = tuple(part for part in member.name.split("/") if part != ".")
        if not parts or "" in parts or ".." in parts:
            raise self.refused(member, "a name that may leave the folder it is unpacked in")
        return parts

    def use(self, member: tarfile.TarInfo, parts: tuple[str, ...]) -> None:
        """Refuse a second member of the name, and parents that are files or spelled otherwise."""
        folded = "/".join(parts).casefold()
        if folded in self.members:
            raise self.refused(member, "there twice, or two names differ by case only")
        self.members.add(folded)
        for depth in range(1, len(parts) + 1):
            mine = ("/".join(parts[:depth]), depth < len(parts) or member.isdir())
            first = self.paths.setdefault(mine[0].casefold(), mine)
            if first != mine:
                raise self.refused(member, f"in a clash of names with {first[0]!r}")

    def refused(self, member: tarfile.TarInfo, why: str) -> BadInput:
        return BadInput(f"{self.archive}: member {member.name!r} is {why}; this archive is refused")
