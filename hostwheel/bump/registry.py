"""One version in a package registry: PEP 691's JSON of a simple index."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urldefrag, urljoin

from packaging.utils import InvalidSdistFilename, parse_sdist_filename
from packaging.version import InvalidVersion, Version

from hostwheel import web
from hostwheel.build.download import HINT
from hostwheel.errors import BadInput

INDEX = "https://pypi.org/simple/"
PROJECT = "llama-cpp-python"
WEB = r"https?://[^\s/]\S*"
ACCEPT = "application/vnd.pypi.simple.v1+json"
NEWEST = 5  # versions named when the wanted one is not there


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    version: str
    url: str
    sha256: str


def find_release(version: str, index: str = INDEX) -> Release:
    """The source archive of a version. BadInput where there is none, or without a sha256."""
    wanted = parsed(version)
    page = f"{index.rstrip('/')}/{PROJECT}/"
    archives = dict(source_archives(read_index(page)))
    if wanted not in archives:
        newest = ", ".join(str(known) for known in sorted(archives)[-NEWEST:]) or "none"
        raise BadInput(f"{page} has no source archive of {version}; its newest are: {newest}")
    file = archives[wanted]
    if file.get("yanked"):
        raise BadInput(f"{page}: {version} was yanked ({file['yanked']}); take another version")
    sha256 = file.get("hashes", {}).get("sha256", "")
    if not sha256:
        raise BadInput(f"{page}: {file['filename']} has no sha256, so it cannot be pinned")
    url = urldefrag(urljoin(page, file["url"])).url
    return Release(version=str(wanted), url=url, sha256=sha256)


def parsed(version: str) -> Version:
    try:
        return Version(version)
    except InvalidVersion:
        raise BadInput(f"{version!r} is no version of llama-cpp-python, like 0.3.36") from None


def source_archives(files: Iterable[dict[str, Any]]) -> Iterable[tuple[Version, dict[str, Any]]]:
    for file in files:
        try:
            yield parse_sdist_filename(file["filename"])[1], file
        except InvalidSdistFilename:
            continue


def read_index(page: str) -> list[dict[str, Any]]:
    if not re.fullmatch(WEB, page):
        raise BadInput(f"--index: no index at {page!r}; expected a URL like {INDEX}")
    try:
        files: list[dict[str, Any]] = json.loads(web.read(page, accept=ACCEPT, hint=HINT))["files"]
        check_entries(files)
    except BadInput as error:
        raise BadInput(f"--index: {error}; give one like {INDEX}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BadInput(f"{page} is no index in JSON (PEP 691); give another with --index") from None
    return files


def check_entries(files: list[dict[str, Any]]) -> None:
    """TypeError unless the entries are such as PEP 691 has them."""
    for file in files:
        kinds = (type(file["filename"]), type(file["url"]), type(file.get("hashes", {})))
        if kinds != (str, str, dict):
            raise TypeError
