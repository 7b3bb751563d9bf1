"""A page of the index, and how long what may be kept."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

HTML = "text/html"
JSON = "application/vnd.pypi.simple.v1+json"

INDEX_CACHE = "max-age=60"
OBJECT_CACHE = "public, max-age=31536000, immutable"

# PEP 700, the last that adds something which these pages have. pip and uv warn of newer ones only.
API_VERSION = "1.1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """An object of the bucket that is derived from the catalog. `key` may end in a slash."""

    key: str
    body: bytes
    content_type: str
    cache_control: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """Pages of the index that follow from `made_of` alone; they are made when they are asked for.

    `name` is the part's in every generation.
    """

    name: str
    made_of: Sequence[object]
    pages: Callable[[], Iterable[Page]]
