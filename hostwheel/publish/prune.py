"""Take away old generations of the catalog, and objects that none of those kept refers to."""

from collections.abc import Iterable, Iterator
from itertools import takewhile

from hostwheel.errors import BadInput, Refused
from hostwheel.publish.bucket import CLOCK, Bucket, probe
from hostwheel.publish.catalog import Catalog, Entry, object_key
from hostwheel.publish.generations import (
    generation_key,
    listed,
    newest,
    read_generation,
)
from hostwheel.publish.index import render
from hostwheel.publish.settle import GRACE, mark_key, settle

OBJECTS = "objects/"


def prune(bucket: Bucket, keep: int) -> tuple[str, ...]:
    """Keep `keep` generations, and all that they refer to; return the keys that were removed.

    `catalog.json` and the index are first brought in line with the newest generation, so that
    nothing leads to one that is gone.
    """
    if keep < 1:
        raise BadInput(f"--keep {keep}: the newest generation is always kept; give 1 or more")
    settle(bucket, newest(bucket))
    bucket.put(probe(CLOCK))  # what time it is by the store's own clock
    found = {each.key: each.modified for each in bucket.list("")}
    old = {key for key, modified in found.items() if found[CLOCK] - modified > GRACE}
    numbers = listed(bucket)
    # From the oldest on, up to the first that is young: a gap would stop who reads on.
    gone = tuple(takewhile(lambda number: generation_key(number) in old, numbers[:-keep]))
    kept = numbers[len(gone) :]
    both = (key for number in gone for key in (mark_key(number), generation_key(number)))
    away = [key for key in both if key in found]
    needed = {key for catalog in read_all(bucket, kept) for key in needed_objects(catalog)}
    away += sorted(key for key in old if key.startswith(OBJECTS) and key not in needed)
    for key in away:
        bucket.delete(key)
    check_not_needed(bucket, away)
    return tuple(away)


def read_all(bucket: Bucket, numbers: Iterable[int]) -> Iterator[Catalog]:
    for number in numbers:
        if catalog := read_generation(bucket, number):
            yield catalog


def needed_objects(catalog: Catalog) -> Iterator[str]:
    """All objects of a generation; some of its pages are objects, written once like them."""
    yield from needed_keys(catalog.entries)
    yield from (page.key for page in render(catalog) if page.key.startswith(OBJECTS))


def needed_keys(entries: Iterable[Entry]) -> Iterator[str]:
    """What entries refer to."""
    for entry in entries:
        yield entry.key
        if entry.metadata:
            yield f"{entry.key}.metadata"
        yield from (object_key(sha256, name) for name, sha256 in entry.evidence.items())


def check_not_needed(bucket: Bucket, removed: Iterable[str]) -> None:
    """A publisher may have taken up an old object, which it found there, while we looked."""
    gone = set(removed)
    entries = newest(bucket).entries
    lost = [each.filename for each in entries if gone.intersection(needed_keys((each,)))]
    if lost:
        raise Refused(
            f"{', '.join(lost)}: published while this was pruning, which took objects of it: "
            "publish it again"
        )
