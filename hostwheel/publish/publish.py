"""A proved build → a bucket. Objects first, then a catalog generation, then what is derived."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from hostwheel.errors import Refused
from hostwheel.publish.bucket import Bucket
from hostwheel.publish.catalog import Catalog, Entry
from hostwheel.publish.entries import items
from hostwheel.publish.evidence import Evidence
from hostwheel.publish.generations import newest
from hostwheel.publish.objects import Advance, Upload, upload, upload_all
from hostwheel.publish.settle import advance_and_settle, derived
from hostwheel.publish.sign import hashes, sign_sums, vouched, with_statements
from hostwheel.publish.variant_items import with_variants


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """`changed` are the files that are new, or have new evidence; none when all was there."""

    catalog: Catalog
    entries: tuple[Entry, ...]
    changed: tuple[str, ...]
    not_run: int


def publish(
    evidence: Evidence, bucket: Bucket, progress: Advance, key: Path | None = None
) -> Published:
    """Signed with `key`, an SSH key, if there is one. Refused where a name is taken by other bytes.

    A publish that was stopped anywhere leaves an index that holds, and the next one goes on.
    """
    with TemporaryDirectory(prefix="hostwheel-publish-") as folder:
        ready = tuple(with_variants(items(evidence, now()), Path(folder)))
        if key:
            build = json.loads(evidence.texts["build.json"])
            ready = tuple(with_statements(ready, build, key))
        entries = [each.entry for each in ready]
        catalog = newest(bucket)
        fresh = merged(catalog, entries)  # refused before anything goes up
        if not catalog.generation:
            check_free(bucket, catalog.next(fresh))
        known = vouched(bucket, catalog, key)
        found = upload_all(bucket, [each for item in ready for each in item.uploads], progress)
        done = add(bucket, catalog, entries, evidence.not_run)
        put_back(bucket, found)
    if key:
        sign_sums(bucket, key, {**known, **hashes(entries)})
    return done


def put_back(bucket: Bucket, found: Iterable[Upload]) -> None:
    """Objects of a publish that was stopped: old, and until now nothing referred to them, so that
    a pruning may have taken them meanwhile. One that comes later sees the new generation."""
    for each in found:
        if not bucket.exists(each.key):
            upload(bucket, each)


def check_free(bucket: Bucket, first: Catalog) -> None:
    """Refused where what is not ours has the name of a page, in a bucket without a catalog."""
    for page in derived(bucket, first):
        found = bucket.read(page.key)
        if found not in (None, page.body) and not newest(bucket).generation:
            raise Refused(
                f"{bucket.url}/{page.key}: is there already, and there is no catalog beside it, "
                "so that it is not hostwheel's: publish into an empty folder or prefix, or take "
                "it away"
            )


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def add(bucket: Bucket, catalog: Catalog, entries: Sequence[Entry], not_run: int = 0) -> Published:
    """The second phase, when their objects are there. `catalog` is what we know of the newest."""
    changed: list[Entry] = []

    def change(catalog: Catalog) -> Sequence[Entry]:
        fresh = merged(catalog, entries)
        changed[:] = fresh
        return fresh

    settled = advance_and_settle(bucket, catalog, change)
    names = tuple(each.filename for each in changed)
    return Published(catalog=settled, entries=tuple(entries), changed=names, not_run=not_run)


def merged(catalog: Catalog, entries: Iterable[Entry]) -> Sequence[Entry]:
    """Those that say something new. Time of upload and yanking of a published file stay.

    Refused where a name is taken: an index that gives other bytes under a name breaks everyone's
    locks and caches.
    """
    known = {each.filename: each for each in catalog.entries}
    fresh = []
    for entry in entries:
        old = known.get(entry.filename, entry)
        if old.sha256 != entry.sha256:
            raise Refused(
                f"{entry.filename} is published with sha256 {old.sha256} (on {old.uploaded}), "
                f"this one has {entry.sha256}: what is published is not replaced; build it under "
                "another version"
            )
        same = replace(entry, uploaded=old.uploaded, yanked=old.yanked)
        if known.get(entry.filename) != same:
            fresh.append(same)
    return fresh
