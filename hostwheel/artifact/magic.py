"""How archives begin."""

ZIP_MAGIC = b"PK\x03\x04"
EMPTY_ZIP = b"PK\x05\x06"
TAR_PACKERS = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00")
UNREAD_PACKERS = {b"\x28\xb5\x2f\xfd": "zstd", b"7z\xbc\xaf\x27\x1c": "7-zip", b"Rar!": "RAR"}
TAR_MAGIC, TAR_MAGIC_AT = b"ustar", 257
HEAD = TAR_MAGIC_AT + len(TAR_MAGIC)  # bytes that tell


def is_tar(head: bytes) -> bool:
    return head[TAR_MAGIC_AT:HEAD] == TAR_MAGIC
