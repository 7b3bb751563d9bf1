"""What is derived from the catalog, brought in line with it: the index, SHA256SUMS, catalog.json.

Only who has just made a generation writes pages, so that each writer can be seen. Once it has
finished it puts a mark, `catalog/00000007.settled`. Its text is `form()` where the makers of all
generations before had finished when it began; then the pages are those of generation 7, and if the
maker of generation 8 finds that mark, it writes the pages that it changes and reads none.

Else the mark is empty, and the next maker compares every page: one that was overtaken may overwrite
newer pages, and be stopped before it sees that. So it is where another hostwheel has marked, since
it may give pages another form. One that has not finished within a day counts as stopped.
"""

import hashlib
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import cache
from pathlib import Path

from hostwheel.errors import MachineLacks
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
PATIENCE_S = GRACE.total_seconds() / 2  # for one's own pages, well before others give one up


def advance_and_settle(bucket: Bucket, catalog: Catalog, change: Change) -> Catalog:
    """As `advance`, and all that is derived; return the newest generation, which that is now of."""
    before, made = advance(bucket, catalog, change)
    if before is made:
        return settle(bucket, made)
    until = time.time() + PATIENCE_S
    if is_known(bucket, before):
        write(bucket, derived(bucket, made, before), until)
        return finish(bucket, made, form(), until)
    return compare(bucket, made, until)


def settle(bucket: Bucket, catalog: Catalog) -> Catalog:
    """Where anything differs from the newest generation, make one of the same files to mend it.

    Return the newest. A bucket that has no generation is left as it is.
    """
    while newer := newer_than(bucket, catalog):
        catalog = newer
    if not catalog.entries or not differing(bucket, catalog):
        return catalog
    _, made = advance(bucket, catalog, lambda newest: newest.entries)
    return compare(bucket, made, time.time() + PATIENCE_S)


def compare(bucket: Bucket, made: Catalog, until: float) -> Catalog:
    """Write every page that differs, as the maker of this generation."""
    text = form() if all_finished(bucket, made) else b""  # asked before anything is written
    write(bucket, differing(bucket, made), until)
    return finish(bucket, made, text, until)


def finish(bucket: Bucket, made: Catalog, text: bytes, until: float) -> Catalog:
    """The last to write has written the newest: who overwrote newer pages writes them anew."""
    last = made
    while newer := newer_than(bucket, last):
        last = newer
        write(bucket, differing(bucket, last), until)
    bucket.put(catalog_page(mark_key(made.generation), text, INDEX_CACHE))
    return last


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


def write(bucket: Bucket, pages: Iterable[Page], until: float) -> None:
    """MachineLacks after `until`, seconds of the clock: others no longer reckon with this one."""
    for page in pages:
        if time.time() > until:
            raise MachineLacks(f"{bucket.url}: half a day since its pages were begun: run it again")
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


def all_finished(bucket: Bucket, made: Catalog) -> bool:
    """Whether the makers of all generations before have finished, or were stopped yesterday."""
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
