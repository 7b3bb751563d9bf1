"""Buckets around a bucket: one that writes nothing, one that tells, one that looks first."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TypeAlias

from hostwheel.publish.bucket import Bucket, Stored
from hostwheel.publish.page import Page

Tell: TypeAlias = Callable[[str, str, int], None]
"""Takes "created", "wrote" or "removed", the key, and the size in bytes (0 of a removed one)."""


class Through:
    """Hands everything on."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket

    @property
    def url(self) -> str:
        return self.bucket.url

    @property
    def slashes(self) -> bool:
        return self.bucket.slashes

    def create(self, page: Page) -> bool:
        return self.bucket.create(page)

    def put(self, page: Page) -> None:
        self.bucket.put(page)

    def read(self, key: str) -> bytes | None:
        return self.bucket.read(key)

    def exists(self, key: str) -> bool:
        return self.bucket.exists(key)

    def list(self, prefix: str) -> Iterator[Stored]:
        return self.bucket.list(prefix)

    def delete(self, key: str) -> None:
        self.bucket.delete(key)


class Telling(Through):
    """Tells of each write that was done."""

    def __init__(self, bucket: Bucket, tell: Tell) -> None:
        super().__init__(bucket)
        self.tell = tell

    def create(self, page: Page) -> bool:
        if made := self.bucket.create(page):
            self.tell("created", page.key, len(page.body))
        return made

    def put(self, page: Page) -> None:
        self.bucket.put(page)
        self.tell("wrote", page.key, len(page.body))

    def delete(self, key: str) -> None:
        self.bucket.delete(key)
        self.tell("removed", key, 0)


class Dry(Through):
    """Keeps in memory what would be written, and shows the bucket as it would then be."""

    def __init__(self, bucket: Bucket) -> None:
        super().__init__(bucket)
        self.changed: dict[str, bytes | None] = {}

    def create(self, page: Page) -> bool:
        if self.exists(page.key):
            return False
        self.changed[page.key] = page.body
        return True

    def put(self, page: Page) -> None:
        self.changed[page.key] = page.body

    def read(self, key: str) -> bytes | None:
        return self.changed[key] if key in self.changed else self.bucket.read(key)

    def exists(self, key: str) -> bool:
        if key in self.changed:
            return self.changed[key] is not None
        return self.bucket.exists(key)

    def list(self, prefix: str) -> Iterator[Stored]:
        yield from (each for each in self.bucket.list(prefix) if each.key not in self.changed)
        for key, body in self.changed.items():
            if body is not None and key.startswith(prefix):
                yield Stored(key=key, size=len(body), modified=datetime.now(UTC))

    def delete(self, key: str) -> None:
        self.changed[key] = None


class LooksFirst(Through):
    """For a store that creates what is there already. Safe as long as nobody else writes."""

    def create(self, page: Page) -> bool:
        return not self.bucket.exists(page.key) and self.bucket.create(page)
