"""Which llama.cpp commit an archive has and when it was made, from any form of git's files."""

import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from hostwheel.bump.commit import Dated, dated
from hostwheel.errors import BadInput
from tests.upstreams import COMMIT, COMMIT_TEXT, EPOCH, GIT, archive, git_files

KNOWN = Dated(commit=COMMIT[:12], epoch=EPOCH, source="the commit")


def pack(kind: int = 1) -> Mapping[str, bytes]:
    """COMMIT as the second of two objects of a pack, and the pack's index (version 2)."""
    size = len(COMMIT_TEXT)
    start = bytes([0x80 | kind << 4 | size & 15, size >> 4])
    content = b"PACK" + bytes(8) + start + zlib.compress(COMMIT_TEXT)
    fanout = struct.pack(">I", 2) * 256
    names = bytes(20) + bytes.fromhex(COMMIT)
    index = b"\xfftOc\0\0\0\2" + fanout + names + bytes(8) + struct.pack(">II", 0, 12)
    return {f"{GIT}objects/pack/pack-1.idx": index, f"{GIT}objects/pack/pack-1.pack": content}


def head(text: str) -> Mapping[str, bytes]:
    return {f"{GIT}HEAD": text.encode()}


LOOSE = {name: content for name, content in git_files().items() if "objects" in name}


@pytest.mark.parametrize(
    "git",
    [
        git_files(),
        {**LOOSE, **head(f"{COMMIT}\n")},
        {**LOOSE, **head("ref: refs/heads/x\n"), f"{GIT}refs/heads/x": f"{COMMIT}\n".encode()},
        {**pack(), **head(COMMIT)},
    ],
    ids=["packed ref", "detached", "loose ref", "pack"],
)
def test_the_commit_is_read_from_gits_files(git: Mapping[str, bytes], tmp_path: Path) -> None:
    assert dated(archive(tmp_path, "1.0", git=git)) == KNOWN


@pytest.mark.parametrize(
    ("git", "commit"),
    [
        ({}, None),
        (head("ref: refs/heads/x\n"), None),
        (head("nonsense"), None),
        (head(COMMIT), COMMIT[:12]),
        ({**pack(kind=6), **head(COMMIT)}, COMMIT[:12]),
        ({**{name: text[:1050] for name, text in pack().items()}, **head(COMMIT)}, COMMIT[:12]),
        ({**dict.fromkeys(LOOSE, b"not zlib"), **head(COMMIT)}, COMMIT[:12]),
    ],
    ids=["no git", "no such ref", "no hash", "no object", "a delta", "cut off", "damaged"],
)
def test_without_the_commits_text_the_newest_file_gives_the_time(
    git: Mapping[str, bytes], commit: str | None, tmp_path: Path
) -> None:
    expected = Dated(commit=commit, epoch=EPOCH + 7, source="the archive's newest file")
    assert dated(archive(tmp_path, "1.0", git=git)) == expected


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path, "1.0")
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(BadInput, match="is damaged"):
        dated(path)
