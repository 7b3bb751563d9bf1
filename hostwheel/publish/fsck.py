"""Everything in a bucket looked at: hashes, links, pages, generations, what nothing refers to."""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from typing import Literal
from zipfile import BadZipFile, ZipFile

from hostwheel.errors import BadInput, Refused
from hostwheel.publish.bucket import CLOCK, PROBE, Bucket
from hostwheel.publish.catalog import Catalog, Entry, object_key
from hostwheel.publish.entries import metadata_in
from hostwheel.publish.generations import (
    FOLDER,
    HINT,
    copied,
    generation_key,
    generation_number,
    listed,
    newest,
    read_generation,
)
from hostwheel.publish.hrefs import links_of
from hostwheel.publish.page import Page
from hostwheel.publish.prune import OBJECTS, needed_objects
from hostwheel.publish.settle import derived, mark_key
from hostwheel.trust.sums import SIGNATURE

Kind = Literal["missing", "damaged", "stale", "dangling", "orphan"]
"""Not there; other bytes than its hash says; a page that is not what the catalog gives; a link
to nothing; what nothing refers to."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """What is wrong with a key, and what to do where `--repair` cannot."""

    key: str
    kind: Kind
    message: str
    remedy: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Looked:
    """What was looked at, and what was found. Orphans alone break nothing."""

    catalog: Catalog
    keys: int
    faults: tuple[Fault, ...]


def fsck(bucket: Bucket) -> Looked:
    """Read the whole bucket, objects included. BadInput where there is no catalog in it.

    Once more where someone published meanwhile, and it looks like a fault.
    """
    looked = look(bucket)
    while looked.faults and newest_or_copy(bucket).generation != looked.catalog.generation:
        looked = look(bucket)
    return looked


def look(bucket: Bucket) -> Looked:
    catalog = newest_or_copy(bucket)
    keys = {each.key for each in bucket.list("")}
    if not catalog.generation:
        raise BadInput(f"{bucket.url}: no catalog in it, so nothing was published here")
    pages = derived(bucket, catalog)
    faults = (
        *generation_faults(bucket, keys, catalog),
        *object_faults(bucket, keys, catalog),
        *page_faults(bucket, keys, pages),
        *orphans(bucket, keys, pages),
    )
    return Looked(catalog=catalog, keys=len(keys), faults=faults)


def newest_or_copy(bucket: Bucket) -> Catalog:
    """The newest generation; its copy where it was damaged by hand."""
    try:
        return newest(bucket)
    except BadInput:
        copy = copied(bucket.read(HINT))
        if copy is None:
            raise
        later = [number for number in listed(bucket) if number > copy.generation]
        if not all(is_stray(bucket, number) for number in later):
            raise
        return copy


def is_stray(bucket: Bucket, number: int) -> bool:
    """Whether an older generation lies under this number; what cannot be read may be a newer."""
    found = copied(bucket.read(generation_key(number)))
    return found is not None and found.generation < number


def generation_faults(bucket: Bucket, keys: Collection[str], catalog: Catalog) -> Iterator[Fault]:
    """The newest is there, those before it can be read."""
    if (key := generation_key(catalog.generation)) not in keys:
        yield Fault(key=key, kind="missing", message=f"its copy {HINT} is there")
    numbers = sorted(number for key in keys if (number := generation_number(key)) is not None)
    for number in numbers:
        key = generation_key(number)
        try:
            read_generation(bucket, number)
        except BadInput as error:
            yield Fault(key=key, kind="damaged", message=str(error), remedy=f"delete {key}")
    yield from gaps(sorted({*numbers, catalog.generation}))


def gaps(numbers: Sequence[int]) -> Iterator[Fault]:
    """Pruning takes the oldest. Whoever reads on from one to the next stops before a gap."""
    for before, after in pairwise(numbers):
        if after != before + 1:
            yield Fault(
                key=generation_key(before + 1),
                kind="missing",
                message=f"no generation between {before} and {after}, which is there",
                remedy=f"put it back, or publish again what {generation_key(after)} lacks of it",
            )


def object_faults(bucket: Bucket, keys: Collection[str], catalog: Catalog) -> Iterator[Fault]:
    """Of each entry: its bytes, its metadata as in the wheel, its evidence."""
    for entry in catalog.entries:
        remedy = f"publish {entry.recipe}'s out/ folder of {entry.version} again"
        file = bucket.read(entry.key)
        yield from byte_faults(entry.key, file, entry.sha256, remedy)
        if file is not None and len(file) != entry.size:
            yield from size_faults(catalog, entry, file, remedy)
        if entry.metadata:
            yield from metadata_faults(bucket, entry, file)
        for name, sha256 in entry.evidence.items():
            key = object_key(sha256, name)
            yield from byte_faults(key, bucket.read(key), sha256, remedy)


def size_faults(catalog: Catalog, entry: Entry, file: bytes, remedy: str) -> Iterator[Fault]:
    """Where the bytes are right it is the catalog that is wrong, and the object stays."""
    if hashlib.sha256(file).hexdigest() == entry.sha256:
        message = f"says {entry.size:,} bytes of {entry.filename}, which has {len(file):,}"
        key = generation_key(catalog.generation)
        yield Fault(key=key, kind="stale", message=message, remedy=remedy)


def byte_faults(key: str, found: bytes | None, sha256: str, remedy: str) -> Iterator[Fault]:
    if found is None:
        yield Fault(key=key, kind="missing", message="listed and not there", remedy=remedy)
    elif (actual := hashlib.sha256(found).hexdigest()) != sha256:
        message = f"has sha256 {actual} ({len(found):,} bytes), expected {sha256}"
        yield Fault(key=key, kind="damaged", message=message, remedy=remedy)


def metadata_faults(bucket: Bucket, entry: Entry, wheel: bytes | None) -> Iterator[Fault]:
    key = f"{entry.key}.metadata"
    found = bucket.read(key)
    yield from byte_faults(key, found, entry.metadata, "see the wheel beside it")
    inside = wheel and inside_of(wheel)
    if found is not None and inside and found != inside:
        message = "is not the METADATA in the wheel"
        yield Fault(key=key, kind="damaged", message=message, remedy="see the wheel beside it")


def inside_of(wheel: bytes) -> bytes | None:
    try:
        with ZipFile(BytesIO(wheel)) as archive:
            return metadata_in(archive)
    except (BadZipFile, Refused):
        return None  # then its hash is wrong too


def page_faults(bucket: Bucket, keys: Collection[str], pages: Iterable[Page]) -> Iterator[Fault]:
    """Each page is what the catalog gives; as it is stored, each of its links leads somewhere."""
    for page in pages:
        found = bucket.read(page.key)
        if found is None:
            yield Fault(key=page.key, kind="missing", message="a page of the index is not there")
        elif found != page.body:
            message = "is not what the catalog gives"
            yield Fault(key=page.key, kind="stale", message=message)
        for target in links_of(page.key, found or b""):
            if target not in keys:
                message = f"links to {target}, which is not there"
                yield Fault(key=page.key, kind="dangling", message=message)


def orphans(bucket: Bucket, keys: Iterable[str], pages: Iterable[Page]) -> Iterator[Fault]:
    """What no kept generation refers to: left by a publisher that was stopped, or put by hand."""
    known = {PROBE, CLOCK, SIGNATURE, *(page.key for page in pages), *needed_by_kept(bucket, keys)}
    for key in sorted(set(keys) - known):
        if key.startswith(OBJECTS):
            remedy = f"`hostwheel prune {bucket.url} --keep 10`, once nobody is publishing"
            yield Fault(key=key, kind="orphan", message="nothing refers to it", remedy=remedy)
        elif generation_number(key) is None:
            remedy = f"delete {key} if you know what it is"
            yield Fault(key=key, kind="orphan", message="is no part of the index", remedy=remedy)


def needed_by_kept(bucket: Bucket, keys: Iterable[str]) -> Iterator[str]:
    for key in keys:
        if key.startswith(FOLDER) and (number := generation_number(key)) is not None:
            yield mark_key(number)
            yield from generation_needs(bucket, number)


def generation_needs(bucket: Bucket, number: int) -> Iterator[str]:
    try:
        catalog = read_generation(bucket, number)
    except BadInput:
        return  # told above
    yield from needed_objects(catalog or Catalog())
