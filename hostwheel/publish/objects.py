"""Objects: written once under their hash, and read back."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from hostwheel.errors import Refused
from hostwheel.publish.bucket import Bucket
from hostwheel.publish.page import OBJECT_CACHE, Page

Advance: TypeAlias = Callable[[str, int, int], None]
"""Takes the name of what comes next, bytes done, bytes in all."""

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".metadata": "text/plain; charset=utf-8",
    ".gz": "application/gzip",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Upload:
    """What is to lie under `key`: a file or bytes, of this sha256."""

    key: str
    source: Path | bytes
    sha256: str

    @property
    def size(self) -> int:
        return self.source.stat().st_size if isinstance(self.source, Path) else len(self.source)

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    def page(self) -> Page:
        """Refused where the file is no longer what was looked at."""
        body = self.source.read_bytes() if isinstance(self.source, Path) else self.source
        if (found := hashlib.sha256(body).hexdigest()) != self.sha256:
            raise Refused(
                f"{self.source!s:.200}: sha256 {found}, expected {self.sha256}; try again"
            )
        kind = TYPES.get(Path(self.key).suffix, "application/octet-stream")
        return Page(key=self.key, body=body, content_type=kind, cache_control=OBJECT_CACHE)


def upload_all(bucket: Bucket, uploads: Sequence[Upload], advance: Advance) -> Sequence[Upload]:
    """Each once. Those that are there already are read, and left; return them."""
    once = {each.key: each for each in uploads}.values()
    total, done = sum(each.size for each in once), 0
    found = []
    for each in once:
        advance(each.name, done, total)
        if not upload(bucket, each):
            found.append(each)
        done += each.size
    advance("", done, total)
    return found


def upload(bucket: Bucket, wanted: Upload) -> bool:
    """Whether it was not there. Refused unless the key then gives exactly these bytes back."""
    made = bucket.create(wanted.page())
    stored = bucket.read(wanted.key)
    found = hashlib.sha256(stored).hexdigest() if stored is not None else "nothing"
    if found == wanted.sha256:
        return made
    where = f"{bucket.url}/{wanted.key}"
    size = len(stored or b"")
    if made:
        raise Refused(f"{where}: was written, and {found} came back ({size:,} bytes); try again")
    raise Refused(
        f"{where}: is there with other bytes (sha256 {found}, {size:,} bytes; expected "
        f"{wanted.sha256}, {wanted.size:,} bytes), and what is published is not overwritten: "
        f"`hostwheel fsck {bucket.url} --repair` takes damaged objects away; then publish again"
    )
