"""One pinned archive, by URL or from the user, into the cache: its hash is checked on every use."""

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from hostwheel import web
from hostwheel.artifact import contents
from hostwheel.build.folders import writing
from hostwheel.errors import BadInput
from hostwheel.plan.files import reading

LIMIT_BYTES = 1 << 30
HINT = (
    "fetch it elsewhere and give it with --archive FILE; behind a proxy or a private CA set"
    " HTTPS_PROXY, SSL_CERT_FILE"
)


def fetch(
    pin_url: str,
    sha256: str,
    cache: Path,
    *,
    given: Path | None = None,
    limit_bytes: int = LIMIT_BYTES,
) -> Path:
    """The verified archive at `cache/<sha256>/<file name of the URL>`; no network once it is there.

    `given` is the user's own copy: read, never changed. BadInput when a hash differs (a wrong file
    of ours is removed), MachineLacks without network or disk.
    """
    final = cache / sha256 / file_name(pin_url)
    if given is not None:
        return adopt(given, sha256, final, limit_bytes)
    if final.exists():
        return checked(final, sha256)
    try:
        got = download(pin_url, final, sha256, limit_bytes)
    except web.Absent as absent:
        raise BadInput(f"{absent}; correct the pin, or {HINT}") from None
    if got != sha256:
        raise mismatch("the download", pin_url, got, sha256, "it was removed; check the pin")
    return final


def file_name(url: str) -> str:
    name = PurePosixPath(unquote(urlsplit(url).path)).name
    if not name:
        raise BadInput(f"the source URL {url!r} has no file name at its end; correct the pin")
    return name


def adopt(given: Path, sha256: str, final: Path, limit_bytes: int) -> Path:
    """Verify the user's archive, then have a copy of it at `final`."""
    got = digest(given)
    if got != sha256:
        raise mismatch("the archive", str(given), got, sha256, "give the pinned one (not changed)")
    if final.exists() and digest(final) == sha256:
        return final
    with given.open("rb") as source:
        again = save(blocks(source), final, sha256, limit_bytes, str(given))
    if again != sha256:
        raise mismatch("the archive", str(given), again, sha256, "it changed while it was copied")
    return final


def checked(cached: Path, sha256: str) -> Path:
    got = digest(cached)
    if got == sha256:
        return cached
    with writing(cached):
        cached.unlink()
    raise mismatch("the cached archive", str(cached), got, sha256, "it was removed; run this again")


def digest(path: Path) -> str:
    """The sha256 of the user's archive, or of a cached one."""
    with reading(path):
        return contents.sha256(path)


def mismatch(what: str, where: str, got: str, expected: str, advice: str) -> BadInput:
    return BadInput(
        f"{what} {where} is not the pinned one: {advice}\n"
        f"    expected sha256 {expected}\n    found    sha256 {got}"
    )


def download(url: str, final: Path, sha256: str, limit_bytes: int) -> str:
    """Put it at `final` if it is what it should be; return its hash."""
    with web.opened(url, hint=HINT) as answer:
        if answer.size is not None and answer.size > limit_bytes:
            raise too_big(url, f"{answer.size} bytes", limit_bytes)
        return save(shown(answer.blocks, url, answer.size), final, sha256, limit_bytes, url)


def too_big(where: str, size: str, limit_bytes: int) -> BadInput:
    return BadInput(f"{where} has {size}, more than the {limit_bytes} a source archive may have")


def blocks(file: BinaryIO) -> Iterator[bytes]:
    while block := file.read(web.BLOCK_BYTES):
        yield block


def save(chunks: Iterable[bytes], final: Path, sha256: str, limit_bytes: int, origin: str) -> str:
    """Write `chunks` beside `final`, put them there if the hash is `sha256`; return the hash."""
    seen, total = hashlib.sha256(), 0
    with writing(final.parent), partial(final) as part:
        with part.open("wb") as out:
            for chunk in chunks:
                total += len(chunk)
                if total > limit_bytes:
                    raise too_big(origin, f"{total} bytes or more", limit_bytes)
                seen.update(chunk)
                out.write(chunk)
        if seen.hexdigest() == sha256:
            part.replace(final)
    return seen.hexdigest()


@contextmanager
def partial(final: Path) -> Iterator[Path]:
    """A name beside `final` for what is not whole yet; gone afterwards unless it was moved."""
    final.parent.mkdir(parents=True, exist_ok=True)
    part = final.with_name(f".{final.name}.{os.getpid()}.part")
    try:
        yield part
    finally:
        part.unlink(missing_ok=True)


def shown(chunks: Iterable[bytes], url: str, size: int | None) -> Iterator[bytes]:
    """Hand `chunks` on, with a bar on a terminal and one line elsewhere (both on stderr)."""
    console = Console(stderr=True)
    if not console.is_terminal:
        amount = "size unknown" if size is None else f"{size / 1e6:.1f} MB"
        print(f"downloading {url} ({amount})", file=sys.stderr, flush=True)
        yield from chunks
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, TransferSpeedColumn(), console=console) as progress:
        task = progress.add_task(file_name(url), total=size)
        for chunk in chunks:
            progress.advance(task, len(chunk))
            yield chunk
