"""The catalog in its bucket: numbered generations, each written once, and what follows from them.

`catalog/00000007.json` is a complete snapshot, and the truth. `catalog.json` is a copy of the
newest one, as it was when someone last finished; it says where to look for newer ones. The index
is derived. So two publishers lose nothing: one creates generation 8, the other sees that it is
there, adds its own files to it, and creates 9.
"""

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

from hostwheel.errors import BadInput
from hostwheel.publish.bucket import Bucket
from hostwheel.publish.catalog import Catalog, Entry, read_catalog
from hostwheel.publish.index import render
from hostwheel.publish.page import INDEX_CACHE, OBJECT_CACHE, Page
from hostwheel.trust.sums import SUMS, sums

HINT = "catalog.json"
FOLDER = "catalog/"
BEGINNING = re.compile(rb'\{"schema": \d+, "generation": (\d+),')
READERS = 8  # pages read at once

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
    if number is not None and number > last and (copy := copied(text)):
        return copy  # the generation itself was deleted by hand
    return (last and newest_from(bucket, last)) or Catalog()


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


def advance(bucket: Bucket, catalog: Catalog, change: Change) -> Catalog:
    """Make the generation after `catalog` by `change`; where another was first, after that one."""
    while entries := change(catalog):
        following = catalog.next(entries)
        if bucket.create(generation_page(following)):
            return following
        catalog = read_generation(bucket, following.generation) or newest(bucket)
    return catalog


def generation_page(catalog: Catalog) -> Page:
    return catalog_page(generation_key(catalog.generation), catalog.json().encode(), OBJECT_CACHE)


def catalog_page(key: str, body: bytes, cache: str) -> Page:
    return Page(key=key, body=body, content_type="application/json", cache_control=cache)


def settle(bucket: Bucket, catalog: Catalog) -> Catalog:
    """Bring what is derived in line with this or a newer generation; return that.

    Whoever overwrote pages of a newer generation finds it afterwards and writes them anew, so
    that the last to write has written the newest.
    """
    while True:
        write_changed(bucket, derived(bucket, catalog))
        following = catalog.generation + 1
        if not bucket.exists(generation_key(following)):
            return catalog
        catalog = newest_from(bucket, following) or newest(bucket)


def derived(bucket: Bucket, catalog: Catalog) -> Sequence[Page]:
    """All pages that this bucket can hold, each after what it links to; `catalog.json` is last."""
    pages = (page for page in render(catalog) if bucket.slashes or not page.key.endswith("/"))
    stored = bucket.read(generation_key(catalog.generation))  # faster than to write it anew
    copy = catalog_page(HINT, stored or catalog.json().encode(), INDEX_CACHE)
    return (*pages, sums_page(catalog), copy)


def sums_page(catalog: Catalog) -> Page:
    body = sums({each.filename: each.sha256 for each in catalog.entries})
    return Page(key=SUMS, body=body, content_type="text/plain", cache_control=INDEX_CACHE)


def write_changed(bucket: Bucket, pages: Sequence[Page]) -> None:
    """In order. What is stored is looked at, and not concluded from an older catalog: another may
    have overwritten it, and been stopped."""
    with ThreadPoolExecutor(READERS) as pool:
        stored = pool.map(bucket.read, [page.key for page in pages])
        changed = [page for page, found in zip(pages, stored, strict=True) if found != page.body]
    for page in changed:
        bucket.put(page)
