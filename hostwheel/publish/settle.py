"""What is derived from the catalog, brought in line with it: the index, SHA256SUMS, catalog.json.

Whoever makes a generation writes the pages that it changes and reads none, if the makers of all
generations before it are known to have finished. `catalog/00000007.settled` is the mark that the
maker of generation 7 has; its text is `form()` where all before it had too, and empty where that
was not known. In that case every page is read and compared: a publisher that was overtaken may have
overwritten newer pages, and been stopped before it saw that. So it is where another hostwheel wrote
the pages, since it may give them another form.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import cache
from pathlib import Path

from hostwheel.publish.bucket import Bucket
from hostwheel.publish.catalog import Catalog
from hostwheel.publish.generations import (
    FOLDER,
    HINT,
    Change,
    advance,
    catalog_page,
    generation_key,
    generation_number,
    newest,
    newest_from,
)
from hostwheel.publish.index import changed, render
from hostwheel.publish.page import INDEX_CACHE, Page
from hostwheel.trust.sums import SUMS, sums

PACKAGE = Path(__file__).parent.parent
READERS = 8  # pages read at once
# What is younger may belong to a publisher that is at it: its objects come before its generation,
# and its generation before its pages.
GRACE = timedelta(days=1)


def advance_and_settle(bucket: Bucket, catalog: Catalog, change: Change) -> Catalog:
    """As `advance`, and all that is derived; return the newest generation, which that is now of."""
    before, made = advance(bucket, catalog, change)
    if before is made:
        return settle(bucket, made)
    known = is_known(bucket, before)
    if known:
        write(bucket, derived(bucket, made, before))
    else:
        write(bucket, differing(bucket, made))
    last = follow(bucket, made)
    mark(bucket, made, known or all_finished(bucket, made))
    return last


def settle(bucket: Bucket, catalog: Catalog) -> Catalog:
    """Write what differs from this or a newer generation; return that. Not its maker's business.

    The mark is taken away before anything is written, and not put back: whoever makes the next
    generation meanwhile either misses the mark, or is seen here.
    """
    pages = differing(bucket, catalog)
    key = mark_key(catalog.generation)
    if pages and bucket.exists(key):
        bucket.delete(key)
    if not newer_than(bucket, catalog):
        write(bucket, pages)
    newer = newer_than(bucket, catalog)
    return settle(bucket, newer) if newer else catalog


def follow(bucket: Bucket, catalog: Catalog) -> Catalog:
    """The last to write has written the newest: who overwrote newer pages writes them anew."""
    while newer := newer_than(bucket, catalog):
        catalog = newer
        write(bucket, differing(bucket, catalog))
    return catalog


def newer_than(bucket: Bucket, catalog: Catalog) -> Catalog | None:
    following = catalog.generation + 1
    if bucket.exists(generation_key(following)):
        return newest_from(bucket, following) or newest(bucket)
    return None


def derived(bucket: Bucket, catalog: Catalog, before: Catalog | None = None) -> Sequence[Page]:
    """All pages that this bucket can hold, each after what it links to; `catalog.json` is last.

    With `before`, of the index those only that it did not give.
    """
    index = render(catalog) if before is None else changed(before, catalog)
    pages = (page for page in index if bucket.slashes or not page.key.endswith("/"))
    stored = bucket.read(generation_key(catalog.generation))  # faster than to write it anew
    copy = catalog_page(HINT, stored or catalog.json().encode(), INDEX_CACHE)
    return (*pages, sums_page(catalog), copy)


def sums_page(catalog: Catalog) -> Page:
    body = sums({each.filename: each.sha256 for each in catalog.entries})
    return Page(key=SUMS, body=body, content_type="text/plain", cache_control=INDEX_CACHE)


def differing(bucket: Bucket, catalog: Catalog) -> Sequence[Page]:
    """Those pages that are stored otherwise or not at all."""
    pages = derived(bucket, catalog)
    with ThreadPoolExecutor(READERS) as pool:
        stored = pool.map(bucket.read, [page.key for page in pages])
        return [page for page, found in zip(pages, stored, strict=True) if found != page.body]


def write(bucket: Bucket, pages: Iterable[Page]) -> None:
    for page in pages:
        bucket.put(page)


# marks


def mark_key(generation: int) -> str:
    return f"{FOLDER}{generation:08}.settled"


def is_known(bucket: Bucket, before: Catalog) -> bool:
    """Whether all that is derived is of this generation, and nobody is at it.

    The next has a mark only where someone went back to an older catalog by hand.
    """
    next_key = mark_key(before.generation + 1)
    return bucket.read(mark_key(before.generation)) == form() and not bucket.exists(next_key)


def mark(bucket: Bucket, made: Catalog, known: bool) -> None:
    """Say that the maker of this generation is done; `known`, that those before it are too."""
    text = form() if known else b""
    bucket.put(catalog_page(mark_key(made.generation), text, INDEX_CACHE))


def all_finished(bucket: Bucket, made: Catalog) -> bool:
    """Whether the maker of each generation before has finished; one of yesterday was stopped."""
    stored = {each.key: each.modified for each in bucket.list(FOLDER)}
    young = max(stored.values()) - GRACE  # by the store's own clock
    return all(
        mark_key(number) in stored
        for key, modified in stored.items()
        if (number := generation_number(key)) and number < made.generation and modified > young
    )


@cache
def form() -> bytes:
    """Stands for what the pages look like: the sha256 of hostwheel's files, templates included."""
    content = hashlib.sha256()
    for file in sources(PACKAGE):
        content.update(file.read_bytes())
    return content.hexdigest().encode()


def sources(folder: Path) -> Iterator[Path]:
    yield from sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.relative_to(folder).parts
    )
