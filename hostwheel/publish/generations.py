"""The catalog in its bucket: numbered generations, each written once.

`catalog/00000007.json` is a complete snapshot, and the truth. `catalog.json` is a copy of the
newest one, as it was when someone last finished; it says where to look for newer ones. So two
publishers lose nothing: one creates generation 8, the other sees that it is there, adds its own
files to it, and creates 9. `settle.py` brings what is derived in line with it.
"""

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from hostwheel.errors import BadInput, Refused
from hostwheel.publish.bucket import Bucket
from hostwheel.publish.catalog import Catalog, Entry, read_catalog
from hostwheel.publish.page import OBJECT_CACHE, Page

HINT = "catalog.json"
FOLDER = "catalog/"
BEGINNING = re.compile(rb'\{"schema": \d+, "generation": (\d+),')

Change: TypeAlias = Callable[[Catalog], Sequence[Entry]]
"""The entries to add or replace; none where nothing is to be done. May raise Refused."""


def generation_key(number: int) -> str:
    return f"{FOLDER}{number:08}.json"


def generation_number(key: str) -> int | None:
    """The inverse; None for any other key."""
    digits = key.removeprefix(FOLDER).removesuffix(".json")
    return int(digits) if digits.isdecimal() and generation_key(int(digits)) == key else None


def newest(bucket: Bucket) -> Catalog:
    """The newest generation; the empty one of a new bucket. Three requests, no listing.

    `catalog.json` is only asked where to begin: it may be old where a publisher was stopped, or
    edited by hand. Where even the generation that it names is gone, it is older than what was
    pruned, and leads nowhere.
    """
    text = bucket.read(HINT)
    number = hinted(text)
    if number is not None and (found := newest_from(bucket, number)):
        return found
    last = max(listed(bucket), default=0)
    found = (last and newest_from(bucket, last)) or Catalog()
    if number is not None and number > last and (copy := copied(text)):
        return deleted(bucket, found, copy)
    return found


def deleted(bucket: Bucket, last: Catalog, copy: Catalog) -> Catalog:
    """The generation that was deleted by hand, from its copy. Refused where that is another's."""
    names = {each.filename: each.sha256 for each in copy.entries}
    kept = all(names.get(each.filename) == each.sha256 for each in last.entries)
    if copy.generation == last.generation + 1 and kept:
        return copy
    raise Refused(
        f"{bucket.url}/{HINT}: is of generation {copy.generation}, while {FOLDER} ends with "
        f"{last.generation}: if {HINT} is of another bucket, delete it; if generations were deleted"
        f" here, put them back, or copy {HINT} to {generation_key(copy.generation)}"
    )


def hinted(text: bytes | None) -> int | None:
    """The generation that a catalog says it is, if it was written by us; the rest is not read."""
    match = BEGINNING.match(text or b"")
    return int(match[1]) if match else None


def copied(text: bytes | None) -> Catalog | None:
    try:
        return read_catalog(text or b"", HINT)
    except BadInput:
        return None


def listed(bucket: Bucket) -> Sequence[int]:
    """The numbers of all generations that are kept, by a listing."""
    found = (generation_number(each.key) for each in bucket.list(FOLDER))
    return sorted(each for each in found if each is not None)


def newest_from(bucket: Bucket, number: int) -> Catalog | None:
    """The last of the generations from this one on; None where it is not there itself."""
    while bucket.exists(generation_key(number + 1)):
        number += 1
    return read_generation(bucket, number)


def read_generation(bucket: Bucket, number: int) -> Catalog | None:
    """BadInput where it is no catalog, or that of another generation: the numbers lead on."""
    key = generation_key(number)
    text = bucket.read(key)
    if text is None:
        return None
    catalog = read_catalog(text, f"{bucket.url}/{key}")
    if catalog.generation != number:
        raise BadInput(
            f"{bucket.url}/{key}: says that it is generation {catalog.generation}: a copy that was "
            "put there by hand; delete it"
        )
    return catalog


def advance(bucket: Bucket, catalog: Catalog, change: Change) -> tuple[Catalog, Catalog]:
    """Make the generation after `catalog` by `change`; where another was first, after that one.

    Return the one before and the one made; the newest twice, where nothing was to be done.
    """
    while entries := change(catalog):
        following = catalog.next(entries)
        if bucket.create(generation_page(following)):
            return catalog, following
        catalog = read_generation(bucket, following.generation) or newest(bucket)
    return catalog, catalog


def generation_page(catalog: Catalog) -> Page:
    return catalog_page(generation_key(catalog.generation), catalog.json().encode(), OBJECT_CACHE)


def catalog_page(key: str, body: bytes, cache: str) -> Page:
    return Page(key=key, body=body, content_type="application/json", cache_control=cache)
