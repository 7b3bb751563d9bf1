"""A bucket as publishing needs it: a key written once, a key overwritten, a key read."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hostwheel.errors import Refused
from hostwheel.publish.page import Page

PROBE = "probe/create-only"
CLOCK = "probe/clock"


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """An object as a listing shows it: `size` in bytes, `modified` with its time zone."""

    key: str
    size: int
    modified: datetime


class Bucket(Protocol):
    """Every write is whole or not at all. MachineLacks where the store does not answer."""

    @property
    def url(self) -> str: ...
    @property
    def slashes(self) -> bool:
        """Whether a key may end in a slash."""

    def create(self, page: Page) -> bool:
        """Write a key that is not there, in a single request; False where it is there already."""

    def put(self, page: Page) -> None:
        """Write a key, whatever is there."""

    def read(self, key: str) -> bytes | None: ...
    def exists(self, key: str) -> bool: ...
    def list(self, prefix: str) -> Iterator[Stored]:
        """Every object whose key begins with `prefix`, which is empty or ends in a slash."""

    def delete(self, key: str) -> None: ...


def probe(key: str) -> Page:
    """Nothing, to see what the store does with it."""
    return Page(key=key, body=b"", content_type="text/plain", cache_control="no-store")


def check_create_only(bucket: Bucket) -> None:
    """Refused by a store that overwrites what was to be created. One request, two in a new bucket.

    rclone's and other gateways take If-None-Match and ignore it (measured: TOOLS-NOTES, section 5).
    """
    if bucket.create(probe(PROBE)) and bucket.create(probe(PROBE)):
        raise Refused(
            f"{bucket.url}: a key that exists was created again, so that two publishers would"
            " overwrite each other: take a store that honours If-None-Match, or, where nobody"
            " else publishes, give --sole-publisher"
        )
