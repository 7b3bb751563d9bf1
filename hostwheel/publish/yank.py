"""Yanking (PEP 592): a file stays for who has locked it, and is chosen by nobody else."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hostwheel.errors import BadInput
from hostwheel.plan.table import near
from hostwheel.publish.bucket import Bucket
from hostwheel.publish.catalog import Catalog, Entry
from hostwheel.publish.generations import newest
from hostwheel.publish.settle import advance_and_settle


def yank(bucket: Bucket, filename: str, reason: str | None) -> Catalog:
    """With a reason, or None to take it back. A wheel's variant copies go with it.

    BadInput for a file that is not in the catalog, and for an empty reason.
    """
    if reason is not None and not reason.strip():
        raise BadInput("--reason is empty: say why, pip and uv tell it to who has the file locked")

    def change(catalog: Catalog) -> Sequence[Entry]:
        return tuple(
            replace(each, yanked=reason)
            for each in with_copies(catalog, filename)
            if each.yanked != reason
        )

    return advance_and_settle(bucket, newest(bucket), change)


def with_copies(catalog: Catalog, filename: str) -> Iterator[Entry]:
    known = {each.filename: each for each in catalog.entries}
    if filename not in known:
        hint = near(filename, known) if known else "its catalog is empty"
        raise BadInput(f"{filename} is not published here; {hint}")
    named = known[filename]
    yield named
    if named.kind == "wheel":
        for each in catalog.entries:
            if each.kind == "variant" and is_copy(each, named):
                yield each


def is_copy(copy: Entry, wheel: Entry) -> bool:
    """A copy has no evidence of its own."""
    return copy.recipe == wheel.recipe and copy.evidence == wheel.evidence
