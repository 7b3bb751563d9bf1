"""Is a zip file in the one form that `hostwheel bundle` writes, byte for byte beside the contents?

Programs that unpack differ in what they make of all else: members that are folders or links, a
second name in an extra field or in a local header, bytes before, between or after the members.
"""

import io
from pathlib import Path
from zipfile import ZipFile, ZipInfo

from hostwheel.errors import Refused
from hostwheel.user.bundle_pack import member

REMEDY = "get it anew; if another program packed it, unpack it and verify the folder"


class Directory(io.BytesIO):
    """Bytes of a file from `start` on."""

    def __init__(self, start: int) -> None:
        super().__init__()
        self.start = start

    def tell(self) -> int:
        return self.start + super().tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self.start + super().seek(offset - self.start if not whence else offset, whence)


def check_form(path: Path, archive: ZipFile) -> None:
    """Refused with the first difference. `archive` is the opened `path`; contents are not read."""
    position, anew = 0, list[ZipInfo]()
    with path.open("rb") as file:
        for info in archive.infolist():
            expected = written(info, position)
            header = expected.FileHeader()
            file.seek(position)
            if file.read(len(header)) != header:
                raise other(position)
            position += len(header) + expected.file_size
            anew.append(expected)
        end = directory(anew, position)
        file.seek(position)
        if file.read(len(end) + 1) != end:
            raise other(position)


def other(position: int) -> Refused:
    """Without the name that stands there: bytes may be missing before it."""
    return Refused(
        f"is damaged, or is not in the form that `hostwheel bundle` writes, from byte {position:,}"
        f" on; {REMEDY}"
    )


def written(info: ZipInfo, position: int) -> ZipInfo:
    """As the bundler has it: nothing but name, size and checksum is taken from what is there."""
    made = member(info.filename)
    made.CRC, made.header_offset = info.CRC, position
    made.file_size = made.compress_size = info.file_size
    return made


def directory(members: list[ZipInfo], position: int) -> bytes:
    """All that comes after the contents."""
    made = Directory(position)
    with ZipFile(made, "w") as archive:
        archive.filelist = members
    return made.getvalue()
