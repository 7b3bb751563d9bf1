"""Unpack a tar archive, plain or packed with gzip, bzip2 or xz."""

import bz2
import gzip
import io
import lzma
import posixpath
import tarfile
from pathlib import Path
from typing import IO

from hostwheel.artifact.safely import CHUNK, Gate
from hostwheel.errors import BadInput

LARGEST_READ = 16 << 20  # bytes; only a header made to fill the memory is longer


class Bounded(io.RawIOBase):
    """The unpacked archive, of which no more than the limit can be read, nor much at once."""

    def __init__(self, stream: IO[bytes], gate: Gate) -> None:
        super().__init__()
        self.stream, self.gate = stream, gate

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= LARGEST_READ:
            raise BadInput(f"{self.gate.archive}: a header of {size} bytes; refused")
        data = self.stream.read(size)
        self.check(self.stream.tell())
        return data

    def seek(self, position: int, whence: int = io.SEEK_SET) -> int:
        self.check(position)
        return self.stream.seek(position, whence)

    def tell(self) -> int:
        return self.stream.tell()

    def check(self, position: int) -> None:
        if position > self.gate.allowed:
            raise self.gate.bomb()


def unpack_tar(path: Path, gate: Gate) -> None:
    with opened(path) as stream:
        bounded = Bounded(stream, gate)
        with tarfile.open(fileobj=bounded, mode="r:") as tar:
            for member in tar:
                unpack_member(tar, member, gate)
            # tarfile takes a broken header for the end.
            bounded.seek(tar.offset)
            if any(bounded.read(tarfile.BLOCKSIZE)):
                raise tarfile.ReadError("a member's header is broken")
        while bounded.read(CHUNK):  # the packers check their sums at the end only
            pass


def opened(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        head = file.read(3)
    if head.startswith(b"\x1f\x8b"):
        return io.BufferedReader(gzip.open(path))
    if head == b"BZh":
        return io.BufferedReader(bz2.open(path))
    if head == b"\xfd7z":
        return io.BufferedReader(lzma.open(path))
    return path.open("rb")


def unpack_member(tar: tarfile.TarFile, member: tarfile.TarInfo, gate: Gate) -> None:
    name = member.name.removeprefix("./")
    if member.isdir():
        return
    if member.issym():
        gate.link(name, member.linkname)
    elif member.islnk():
        first = member.linkname.removeprefix("./")
        gate.link(name, posixpath.relpath(first, posixpath.dirname(name) or "."))
    elif not member.isreg() or member.issparse():
        raise gate.refused(name, "is a device, a pipe or a sparse file")
    else:
        gate.claim(name, member.size)
        source = tar.extractfile(member)
        assert source is not None, "a regular file has contents"
        with source:
            gate.save(source, name, member.size, None)
