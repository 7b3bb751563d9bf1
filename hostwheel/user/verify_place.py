"""Where a bucket is read from: a store, or a web server before one."""

from dataclasses import dataclass
from urllib.parse import quote

from hostwheel import web
from hostwheel.publish.bucket import Bucket
from hostwheel.publish.store import open_bucket
from hostwheel.user.verify_finding import Read


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """`bucket` is None where keys can be read only, not listed."""

    where: str
    read: Read
    bucket: Bucket | None = None

    @property
    def slashes(self) -> bool:
        """Whether keys that end in a slash can be read."""
        return self.bucket is None or self.bucket.slashes


def stored(where: str) -> Place:
    bucket = open_bucket(where)
    return Place(where=where, read=bucket.read, bucket=bucket)


def served(where: str) -> Place:
    address = where.rstrip("/")

    def read(key: str) -> bytes | None:
        try:
            return web.read(f"{address}/{quote(key)}")
        except web.Absent:
            return None

    return Place(where=where, read=read)
