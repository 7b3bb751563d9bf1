"""Files of a build, from a folder or a bucket, into the bundle: exactly the bytes recorded."""

import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit
from urllib.request import url2pathname

from hostwheel.artifact.contents import sha256
from hostwheel.errors import BadInput, MachineLacks

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
TIMEOUT_S = 60.0


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
    with opened(source.where) as file, path.open("xb") as target:
        try:
            shutil.copyfileobj(file, target, 1 << 20)
        except (HTTPException, ConnectionError, TimeoutError) as error:
            raise unreachable(source.where, repr(error)) from None
    if (found := sha256(path)) != source.sha256:
        raise BadInput(
            f"{source.where} is not what was recorded: fetch or build it again\n"
            f"    expected sha256 {source.sha256}\n    found    sha256 {found}"
        )
    return path


def opened(where: str) -> "closing[BinaryIO]":
    """A file by path, file:// or http(s)://; BadInput where there is none."""
    if urlsplit(where).scheme in ("http", "https"):
        return closing(over_http(where))
    file = where.startswith("file://")
    path = Path(url2pathname(urlsplit(where).path)) if file else Path(where)
    try:
        return closing(path.open("rb"))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None


def over_http(url: str) -> BinaryIO:
    try:
        response: BinaryIO = urllib.request.urlopen(url, timeout=TIMEOUT_S)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code < 500:
            raise BadInput(f"{url}: the server says {error.code} {error.reason}") from None
        raise unreachable(url, f"the server says {error.code} {error.reason}") from None
    except (OSError, HTTPException) as error:
        raise unreachable(url, str(getattr(error, "reason", error))) from None
    return response


def unreachable(url: str, why: str) -> MachineLacks:
    hint = "behind a proxy or a private CA set HTTPS_PROXY, SSL_CERT_FILE"
    return MachineLacks(f"could not download {url}: {why}; {hint}")
