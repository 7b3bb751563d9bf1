"""What tests ask of buckets with published builds."""

import hashlib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin

from hostwheel.publish.bucket import Bucket
from hostwheel.publish.catalog import Entry
from hostwheel.publish.evidence import Evidence
from hostwheel.publish.fsck import fsck
from hostwheel.publish.generations import newest
from hostwheel.publish.objects import Upload, upload
from hostwheel.publish.publish import Published, add, publish
from tests.buckets import entry_of, metadata_of, needs
from tests.stores import Memory


def no_progress(name: str, done: int, total: int) -> None:
    pass


def of_kind(bucket: Memory, kind: str) -> Entry:
    (found,) = [each for each in newest(bucket).entries if each.kind == kind]
    return found


def faults(bucket: Memory) -> set[tuple[str, str]]:
    return {(fault.kind, fault.key) for fault in fsck(bucket).faults}


def evidence_key(bucket: Memory, name: str) -> str:
    entry = of_kind(bucket, "wheel")
    return f"objects/{entry.evidence[name][:2]}/{entry.evidence[name]}/{name}"


def put_up(evidence: Evidence, bucket: Bucket) -> Published:
    return publish(evidence, bucket, lambda name, done, total: None)


def published(bucket: Bucket, wheel: Path, recipe: str = "other") -> Entry:
    """A small wheel as another publisher puts it there, without evidence."""
    entry = entry_of(wheel, recipe)
    upload(bucket, Upload(key=entry.key, source=wheel, sha256=entry.sha256))
    text = metadata_of(wheel)
    upload(bucket, Upload(key=f"{entry.key}.metadata", source=text, sha256=entry.metadata))
    add(bucket, newest(bucket), [entry])
    return entry


class Links(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.page = page
        self.found: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href")
        if tag == "a" and href:
            url, fragment = urldefrag(urljoin(f"/{self.page}", href))
            self.found[unquote(url)[1:]] = fragment.removeprefix("sha256=")


def listed(bucket: Bucket) -> set[str]:
    """The file names on all HTML pages, read as an installer does; each link has to hold."""
    names = set()
    for stored in bucket.list(""):
        if "simple/" not in stored.key or stored.key.startswith("objects/"):
            continue
        links = Links(stored.key)
        links.feed((bucket.read(stored.key) or b"").decode())
        for key, sha256 in links.found.items():
            if sha256:
                names.add(key.rpartition("/")[2])
                assert hashlib.sha256(bucket.read(key) or b"").hexdigest() == sha256, key
            else:
                assert bucket.exists(f"{key}index.html"), f"{stored.key} links to {key}"
    return names


def listed_build(number: int, recipe: str = "one") -> Entry:
    """A file that nobody reads, of a version of its own."""
    version = f"0.2.{number}+cpu.avx2"
    return Entry(
        kind="wheel",
        recipe=recipe,
        title=recipe,
        filename=f"llama_cpp_python-{version}-py3-none-manylinux_2_35_x86_64.whl",
        sha256=f"{number:064x}",
        size=1,
        uploaded="2026-11-30T12:00:00Z",
        version=version,
        platform_tag="manylinux_2_35_x86_64",
        requires_python=">=3.9",
        requires=(),
        metadata="",
        needs=needs(),
        evidence={},
    )
