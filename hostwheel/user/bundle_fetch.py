"""Files of a build, from a folder or a bucket, into the bundle: exactly the bytes recorded."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from hostwheel import web
from hostwheel.artifact.contents import sha256
from hostwheel.errors import BadInput
from hostwheel.plan.files import reading

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A file to fetch: a path, file:// or http(s)://, and its recorded sha256."""

    where: str
    sha256: str


def fetch(sources: Mapping[str, Source], folder: Path) -> Mapping[str, Path]:
    """By file name, copied into the new `folder`; BadInput for other bytes than recorded."""
    folder.mkdir()
    return {name: fetch_file(name, source, folder) for name, source in sources.items()}


def fetch_file(name: str, source: Source, folder: Path) -> Path:
    if not NAME.fullmatch(name):
        raise BadInput(f"{source.where}: {name!r} is no name of a file of a build")
    path = folder / name
    with path.open("xb") as target:
        target.writelines(blocks(source.where))
    if (found := sha256(path)) != source.sha256:
        raise BadInput(
            f"{source.where} is not what was recorded: fetch or build it again\n"
            f"    expected sha256 {source.sha256}\n    found    sha256 {found}"
        )
    return path


def blocks(where: str) -> Iterator[bytes]:
    """A file by path, file:// or http(s)://; BadInput where there is none."""
    if urlsplit(where).scheme in ("http", "https"):
        with web.opened(where) as answer:
            yield from answer.blocks
        return
    named = where.startswith("file://")
    path = Path(url2pathname(urlsplit(where).path)) if named else Path(where)
    with reading(path), path.open("rb") as file:
        while block := file.read(web.BLOCK_BYTES):
            yield block
