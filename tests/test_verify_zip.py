"""A bundle's zip file is in the one form that `hostwheel bundle` writes."""

import struct
import zipfile
from binascii import crc32
from collections.abc import Callable
from pathlib import Path

import pytest

from hostwheel.user.bundle_pack import member
from tests.signed import public
from tests.verified import packed, refusals, signed_bundle

HERE = "models/m.gguf"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return packed(signed_bundle(tmp_path))


def add(place: Path, info: zipfile.ZipInfo, body: bytes = b"") -> None:
    with zipfile.ZipFile(place, "a") as archive:
        archive.writestr(info, body)


def other_name(name: str) -> bytes:
    """Info-ZIP's Unicode Path: it unpacks under this name."""
    body = struct.pack("<BL", 1, crc32(name.encode())) + b"argparse.py"
    return struct.pack("<HH", 0x7075, len(body)) + body


def folder_of_another_name(place: Path) -> None:
    info = member("licenses/")
    info.extra = other_name(info.filename)
    add(place, info, b"print('anyone')")


def again(place: Path, change: Callable[[zipfile.ZipInfo], None]) -> None:
    """Packed anew, one member of it otherwise."""
    with zipfile.ZipFile(place) as archive:
        texts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(place, "w") as archive:
        for name, text in texts.items():
            info = member(name)
            if name == HERE:
                change(info)
            archive.writestr(info, text)


def file_of_another_name(place: Path) -> None:
    again(place, lambda info: setattr(info, "extra", other_name(HERE)))


def deflated(place: Path) -> None:
    again(place, lambda info: setattr(info, "compress_type", zipfile.ZIP_DEFLATED))


def remark(place: Path) -> None:
    again(place, lambda info: setattr(info, "comment", b"remark"))


def device(place: Path) -> None:
    again(place, lambda info: setattr(info, "external_attr", 0o020666 << 16))


def edit(place: Path, change: Callable[[bytes], bytes]) -> None:
    place.write_bytes(change(place.read_bytes()))


def other_local_name(place: Path) -> None:
    edit(place, lambda text: text.replace(b"m.ggufGGUF", b"argparGGUF"))


def script_before(place: Path) -> None:
    edit(place, lambda text: b"#!/bin/sh\necho anyone\n" + text)


def comment(place: Path) -> None:
    with zipfile.ZipFile(place, "a") as archive:
        archive.comment = b"comment"


def directory(place: Path) -> int:
    with zipfile.ZipFile(place) as archive:
        return archive.start_dir


def encrypted(place: Path) -> None:
    """By the directory."""
    at = directory(place) + 8
    edit(place, lambda text: text[:at] + b"\1" + text[at + 1 :])


def bytes_between(place: Path) -> None:
    """A local file before the directory, which programs that read from the front unpack."""
    text, at = place.read_bytes(), directory(place)
    info = member("argparse.py")
    info.CRC = 0
    hidden = info.FileHeader()
    end = struct.pack("<L", at + len(hidden))
    place.write_bytes(text[:at] + hidden + text[at:-6] + end + text[-2:])


FORMS = (folder_of_another_name, file_of_another_name, other_local_name, script_before, comment)
MORE = (encrypted, bytes_between, deflated, remark, device)


@pytest.mark.parametrize("tamper", [*FORMS, *MORE])
def test_a_zip_of_another_form(
    place: Path, capsys: pytest.CaptureFixture[str], tamper: Callable[[Path], None]
) -> None:
    """All that is listed and signed is there; what is unpacked is another matter."""
    tamper(place)
    capsys.readouterr()
    (found,) = refusals(capsys, place, "--key", public())
    assert "is not in the form that `hostwheel bundle` writes" in found.message


def test_a_large_zip_has_that_form(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past 2 GiB it is zip64; here past 4 KiB."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 4096)
    place = packed(signed_bundle(tmp_path))
    assert b"PK\6\6" in place.read_bytes()
    assert not refusals(capsys, place, "--key", public())
