"""What the HTML and the JSON of a project's page have in common: its files, as links."""

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote

from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from hostwheel.publish.catalog import Entry, object_key


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """A file on a project's page. `url` is relative to the page; the rest as in `Entry`."""

    filename: str
    url: str
    sha256: str
    size: int
    uploaded: str
    version: str
    requires_python: str = ""
    metadata: str = ""
    yanked: str | None = None


def project_of(filename: str) -> NormalizedName:
    """The normalised name, as PEP 503 wants the directory named. `packaging` refuses variants."""
    return canonicalize_name(filename.partition("-")[0])


def link(entry: Entry, depth: int) -> Link:
    """`depth` is how many folders the page lies below the bucket's root."""
    return Link(
        filename=entry.filename,
        url=relative(entry.sha256, entry.filename, depth),
        sha256=entry.sha256,
        size=entry.size,
        uploaded=entry.uploaded,
        version=entry.version,
        requires_python=entry.requires_python,
        metadata=entry.metadata,
        yanked=entry.yanked,
    )


def relative(sha256: str, filename: str, depth: int) -> str:
    """A raw `+` in a path is a space to S3: pip would quote it, uv would not find the file."""
    return "../" * depth + object_key(sha256, quote(filename))


def versions(links: Iterable[Link]) -> list[str]:
    return sorted({each.version for each in links}, key=Version)
