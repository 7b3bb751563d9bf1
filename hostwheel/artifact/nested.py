"""Archives inside an artifact that no name tells: which of them may hold native code.

Data is often a zip file (.npz, .jar, .docx) or packed with gzip; that alone is nothing to name.
"""

import zipfile
from collections.abc import Iterator
from pathlib import Path

from hostwheel.artifact.magic import (
    ELF,
    HEAD,
    TAR_PACKERS,
    UNREAD_PACKERS,
    ZIP_MAGIC,
    begins_like_macho,
    is_tar,
)
from hostwheel.artifact.safely import DAMAGE
from hostwheel.artifact.tar import opened

PROGRAMS = (ELF, b"MZ")
ARCHIVES = (ZIP_MAGIC, *TAR_PACKERS, *UNREAD_PACKERS)


def may_hold_code(path: Path) -> bool:
    """Whether it is an archive with native code or an archive in it, or one not read here."""
    with path.open("rb") as file:
        head = file.read(HEAD)
    if head.startswith(ZIP_MAGIC):
        return zip_may(path)
    if head.startswith(TAR_PACKERS):
        return packed_may(path)
    return head.startswith(tuple(UNREAD_PACKERS)) or is_tar(head)


def zip_may(path: Path) -> bool:
    try:
        return any(map(telling, heads(path)))
    except (*DAMAGE, OSError):  # encrypted, or packed in a way that is not read here
        return True


def packed_may(path: Path) -> bool:
    try:
        with opened(path) as stream:
            return telling(stream.read(HEAD))
    except (*DAMAGE, OSError):  # bytes that begin so by chance
        return False


def heads(path: Path) -> Iterator[bytes]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            with archive.open(info) as member:
                yield member.read(HEAD)


def telling(head: bytes) -> bool:
    """Whether it begins like native code or like an archive."""
    return head.startswith((*PROGRAMS, *ARCHIVES)) or is_tar(head) or begins_like_macho(head)
