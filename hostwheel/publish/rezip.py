"""Write a zip file whose members come, packed as they are, from another one.

zipfile can only unpack and pack again, which takes long for a CUDA library and gives other bytes
with another zlib. The format is PKWARE's APPNOTE.TXT, sections 4.3.7, 4.3.12 and 4.3.16.
"""

import struct
import zlib
from copy import copy
from typing import IO
from zipfile import ZIP_STORED, ZipInfo

from hostwheel.errors import Refused

LOCAL_FIXED = 30  # bytes of a local header before its name; of them
SHARED = slice(4, 30)  # those that the central directory repeats
NAME_AND_EXTRA = struct.Struct("<26xHH")  # their lengths, in a local header
CENTRAL_TAIL = struct.Struct("<HHHLL")  # comment, disk, internal and external attributes, offset
END = struct.Struct("<4sHHHHLLH")
LARGEST, MOST = (1 << 32) - 1, (1 << 16) - 1  # without zip64
SIZES_FOLLOW = 0x8  # flag: CRC and sizes stand behind the data, not in the local header


class Rewritten:
    """A zip file being written to `out`; `finish` it."""

    def __init__(self, out: IO[bytes]) -> None:
        self.out = out
        self.members: list[ZipInfo] = []

    def take(self, source: IO[bytes], info: ZipInfo, name: str) -> None:
        """Copy a member of the zip file `source` under this name."""
        source.seek(info.header_offset)
        source.seek(sum(NAME_AND_EXTRA.unpack(source.read(LOCAL_FIXED))), 1)
        self.begin(info, name)
        copy_bytes(source, self.out, info.compress_size)

    def add(self, like: ZipInfo, name: str, content: bytes) -> None:
        """A new member, not packed, with the time and mode of another one."""
        info = copy(like)
        info.compress_type, info.CRC = ZIP_STORED, zlib.crc32(content)
        info.compress_size = info.file_size = len(content)
        self.begin(info, name)
        self.out.write(content)

    def begin(self, info: ZipInfo, name: str) -> None:
        new = copy(info)
        new.filename, new.extra, new.comment = name, b"", b""
        new.flag_bits &= ~SIZES_FOLLOW
        new.header_offset = self.out.tell()
        if max(new.header_offset, new.file_size, new.compress_size) > LARGEST:
            raise Refused(f"{name} makes the wheel one of 4 GiB or more, which needs zip64")
        self.out.write(new.FileHeader(zip64=False))
        self.members.append(new)

    def finish(self) -> None:
        start, count = self.out.tell(), len(self.members)
        for member in self.members:
            self.out.write(central_header(member))
        size = self.out.tell() - start
        if start > LARGEST or count > MOST:
            raise Refused(f"a wheel of {start} bytes and {count} files needs zip64")
        self.out.write(END.pack(b"PK\5\6", 0, 0, count, count, size, start, 0))


def central_header(member: ZipInfo) -> bytes:
    local = member.FileHeader(zip64=False)
    version = bytes((member.create_version, member.create_system))
    tail = CENTRAL_TAIL.pack(0, 0, member.internal_attr, member.external_attr, member.header_offset)
    return b"PK\1\2" + version + local[SHARED] + tail + local[LOCAL_FIXED:]


def copy_bytes(source: IO[bytes], out: IO[bytes], count: int) -> None:
    while count:
        block = source.read(min(count, 1 << 20))
        if not block:
            raise Refused(f"{source.name} ends within a member: build it again")
        out.write(block)
        count -= len(block)
