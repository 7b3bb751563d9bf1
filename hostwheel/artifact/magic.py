"""How native files and archives begin."""

from pathlib import Path

ELF = b"\x7fELF"
THIN = tuple(bytes.fromhex(each) for each in ("cffaedfe", "cefaedfe", "feedfacf", "feedface"))
UNIVERSAL = tuple(bytes.fromhex(each) for each in ("cafebabe", "cafebabf"))
# Java's class files have the same first bytes, and then a version from 45 on.
MOST_ARCHITECTURES = 40

ZIP_MAGIC = b"PK\x03\x04"
EMPTY_ZIP = b"PK\x05\x06"
TAR_PACKERS = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00")
UNREAD_PACKERS = {b"\x28\xb5\x2f\xfd": "zstd", b"7z\xbc\xaf\x27\x1c": "7-zip", b"Rar!": "RAR"}
TAR_MAGIC, TAR_MAGIC_AT = b"ustar", 257
HEAD = TAR_MAGIC_AT + len(TAR_MAGIC)  # bytes that tell


def is_tar(head: bytes) -> bool:
    return head[TAR_MAGIC_AT:HEAD] == TAR_MAGIC


def is_elf(path: Path) -> bool:
    """Whether `path` is a regular file that begins like an ELF file."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == ELF


def is_macho(path: Path) -> bool:
    """Whether it begins like a Mach-O file."""
    with path.open("rb") as file:
        return begins_like_macho(file.read(8))


def begins_like_macho(head: bytes) -> bool:
    """Of the first eight bytes or more."""
    if head[:4] in THIN:
        return True
    return head[:4] in UNIVERSAL and 0 < int.from_bytes(head[4:8], "big") <= MOST_ARCHITECTURES
