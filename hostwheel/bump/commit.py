"""Which llama.cpp commit an archive vendors, and when it was made: read from its .git files."""

import re
import struct
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from hostwheel.errors import BadInput

MODULE = ".git/modules/vendor/llama.cpp/"
HASH = re.compile(r"[0-9a-f]{40}")
COMMITTER = re.compile(rb"^committer .* (\d+) [+-]\d{4}$", re.MULTILINE)
SHOWN = 12  # digits of a commit, as recipes/upstream.toml has them
COMMIT_TYPE = 1
IDX_V2 = b"\xfftOc\0\0\0\2"


@dataclass(frozen=True, kw_only=True, slots=True)
class Dated:
    """`commit` is None where the archive does not say. `epoch` (Unix seconds) is of `source`."""

    commit: str | None
    epoch: int
    source: str


def dated(archive: Path) -> Dated:
    files, newest = git_files(archive)
    commit = head(files)
    made = committed(files, commit) if commit else None
    return Dated(
        commit=commit[:SHOWN] if commit else None,
        epoch=newest if made is None else made,
        source="the archive's newest file" if made is None else "the commit",
    )


def git_files(archive: Path) -> tuple[Mapping[str, bytes], int]:
    """The files of llama.cpp's git folder, and the newest modification time in the archive."""
    files, newest = {}, 0
    try:
        with tarfile.open(archive, "r|gz") as tar:
            for member in tar:
                newest = max(newest, int(member.mtime))
                inside = "/".join(PurePosixPath(member.name).parts[1:])
                content = tar.extractfile(member) if inside.startswith(MODULE) else None
                if content is not None:
                    files[inside.removeprefix(MODULE)] = content.read()
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise BadInput(f"{archive} is damaged or no .tar.gz ({error})") from None
    return files, newest


def head(files: Mapping[str, bytes]) -> str | None:
    """The commit that HEAD names, itself or through a branch."""
    said = files.get("HEAD", b"").decode(errors="replace").strip()
    if said.startswith("ref: "):
        branch = said.removeprefix("ref: ")
        said = files.get(branch, b"").decode(errors="replace").strip() or packed(files, branch)
    return said if HASH.fullmatch(said) else None


def packed(files: Mapping[str, bytes], branch: str) -> str:
    lines = files.get("packed-refs", b"").decode(errors="replace").splitlines()
    return next((line.split()[0] for line in lines if line.endswith(f" {branch}")), "")


def committed(files: Mapping[str, bytes], commit: str) -> int | None:
    """When `commit` was committed; None if its object is not there in full."""
    for content in objects(files, commit):
        if match := COMMITTER.search(content):
            return int(match[1])
    return None


def objects(files: Mapping[str, bytes], commit: str) -> Iterator[bytes]:
    try:
        if loose := files.get(f"objects/{commit[:2]}/{commit[2:]}"):
            yield zlib.decompress(loose)
        for name, index in files.items():
            if name.endswith(".idx") and index.startswith(IDX_V2):
                pack = files.get(name.removesuffix(".idx") + ".pack", b"")
                yield from in_pack(index, pack, bytes.fromhex(commit))
    except (zlib.error, struct.error, IndexError):
        return


def in_pack(index: bytes, pack: bytes, commit: bytes) -> Iterator[bytes]:
    """gitformat-pack(5): a table of hashes, of CRCs, of offsets; packs over 2 GiB are not read."""
    names = 8 + 256 * 4
    (count,) = struct.unpack_from(">I", index, names - 4)
    place = index.find(commit, names, names + 20 * count)
    if place < 0 or (place - names) % 20:
        return
    number = (place - names) // 20
    (offset,) = struct.unpack_from(">I", index, names + 24 * count + 4 * number)
    kind = (pack[offset] >> 4) & 7
    while pack[offset] & 0x80:  # the size follows, seven bits a byte
        offset += 1
    if kind == COMMIT_TYPE:
        yield zlib.decompressobj().decompress(pack[offset + 1 :])
