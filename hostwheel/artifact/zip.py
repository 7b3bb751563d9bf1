"""Unpack a zip file, wheels among them."""

import stat
import zipfile
from pathlib import Path

from hostwheel.artifact.safely import Gate

ENCRYPTED = 0x1
LONGEST_TARGET = 4096  # bytes of a symbolic link


def unpack_zip(path: Path, gate: Gate) -> None:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            unpack_member(archive, info, gate)


def unpack_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, gate: Gate) -> None:
    # `filename` is what zipfile makes of it: cut at a NUL.
    name = info.orig_filename
    mode = info.external_attr >> 16
    if info.is_dir():
        return
    if info.flag_bits & ENCRYPTED:
        raise gate.refused(name, "is encrypted")
    if stat.S_ISLNK(mode):
        if info.file_size > LONGEST_TARGET:
            raise gate.refused(name, "is a link of more than 4096 bytes")
        gate.link(name, archive.read(info).decode())
        return
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        raise gate.refused(name, "is a pipe, socket or device")
    gate.claim(name, info.file_size)
    with archive.open(info) as source:
        gate.save(source, name, info.file_size, info.compress_size)
        if source.read(1):  # also has it check the CRC
            raise gate.refused(name, "is longer than it says")
