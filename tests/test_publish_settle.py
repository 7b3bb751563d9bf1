"""What one more file costs in a bucket, and why nothing is left stale by what it leaves out."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from hostwheel.publish import settle
from hostwheel.publish.bucket import Bucket
from hostwheel.publish.catalog import Catalog, Entry
from hostwheel.publish.evidence import Evidence
from hostwheel.publish.fsck import fsck
from hostwheel.publish.generations import HINT, generation_key, newest
from hostwheel.publish.index import changed, parts, render
from hostwheel.publish.publish import add
from hostwheel.publish.settle import GRACE, derived, form, mark_key
from hostwheel.publish.yank import yank
from hostwheel.trust.sums import SIGNATURE
from tests.published import listed_build, put_up
from tests.stores import Counting, Crashed, Crashing, Memory

pytest_plugins = ["tests.publish_fixtures"]

PAGES = ("index.html", "builds", "simple", "simple-json", "SHA256SUMS", HINT)
OLDER = 300  # builds, of as many versions: more than the first page holds
EDITED = b"edited by hand"
MANY = 800  # ways in which publishers meet; of the faults that were tried, one shows at the 588th


def publish(bucket: Bucket, *entries: Entry) -> Catalog:
    return add(bucket, newest(bucket), entries).catalog


def stale(bucket: Bucket) -> list[str]:
    """Pages of another generation. What was edited by hand is mended by who looks at it."""
    pages = derived(bucket, newest(bucket))
    return [page.key for page in pages if bucket.read(page.key) not in (page.body, EDITED)]


# what it costs


def test_one_more_file_reads_no_page_and_writes_what_it_changes(evidence: Evidence) -> None:
    bucket = Memory()
    publish(bucket, *(listed_build(number) for number in range(OLDER)))
    before = dict(bucket.held)
    counting = Counting(bucket)
    put_up(evidence, counting)
    assert stale(bucket) == []
    channels = ("one", "cpu-avx2")
    beside = {
        (what, where): count
        for (what, where), count in counting.counts.items()
        if where != "objects" and not (what == "put" and where in (*PAGES, *channels))
    }
    assert beside == {
        ("read", HINT): 1,  # where to begin
        ("exists", "catalog"): 3,  # nothing newer, before and after; no mark of the one made
        ("read", "catalog"): 3,  # the newest and its mark; and what was made, for the copy
        ("create", "catalog"): 1,
        ("put", "catalog"): 1,  # the mark
        ("read", SIGNATURE): 1,  # is it signed
    }
    written = {key for key, held in bucket.held.items() if before.get(key) is not held}
    assert {key for key in written if key.startswith("one/")} == set()
    # A page for the version that the new one takes the place of on the first.
    assert [key for key in written if key.startswith("builds/")] == ["builds/0.2.180.html"]


@pytest.mark.parametrize("reason", ["it crashes", None])
def test_a_file_of_an_old_version_changes_its_page(reason: str | None) -> None:
    bucket = Memory()
    publish(bucket, *(listed_build(number) for number in range(OLDER)))
    before = dict(bucket.held)
    if reason:
        yank(bucket, listed_build(7).filename, reason)
    else:
        publish(
            bucket,
            replace(listed_build(7, "two"), filename="llama_cpp_python-0.2.7-py3-none-x.whl"),
        )
    assert stale(bucket) == []
    rewritten = {key for key in before if bucket.held[key] is not before[key]}
    assert {key for key in rewritten if key.startswith("builds/")} == {"builds/0.2.7.html"}


def test_what_changes_is_what_a_comparison_of_all_pages_finds() -> None:
    catalog = Catalog().next(listed_build(number) for number in range(OLDER))
    for more in (
        [listed_build(OLDER)],
        [listed_build(3, "two")],
        [replace(listed_build(9), yanked="x")],
        [listed_build(5)],
    ):
        after = catalog.next(more)
        old = {page.key: page for page in render(catalog)}
        found = [page for page in render(after) if old.get(page.key) != page]
        made = {page.key: page for page in changed(catalog, after)}
        assert set(found) <= set(made.values())
        assert len(made) < 20


def test_parts_have_names_of_their_own() -> None:
    names = [part.name for part in parts(Catalog().next([listed_build(1), listed_build(2, "two")]))]
    assert len(names) == len(set(names))


# when all is compared


def test_after_a_publisher_that_was_stopped_everything_is_compared_for_a_day() -> None:
    bucket = Memory()
    publish(bucket, listed_build(1))
    with pytest.raises(Crashed):
        publish(Crashing(bucket, 1), listed_build(2))  # its generation, and no page
    assert bucket.exists(generation_key(2))
    for number in (3, 4):
        publish(bucket, listed_build(number))
        assert stale(bucket) == []
        assert bucket.read(mark_key(number)) == b""
    bucket.now += GRACE + timedelta(hours=1)
    publish(bucket, listed_build(5))
    assert bucket.read(mark_key(5)) == form()


def test_pages_of_another_hostwheel_are_written_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = Memory()
    publish(bucket, *(listed_build(number) for number in range(OLDER)))
    key = "builds/0.2.7.html"
    bucket.edit(key, b"as it looked before")
    publish(bucket, listed_build(OLDER))
    assert stale(bucket) == [key]  # of this hostwheel's pages, it knows
    monkeypatch.setattr(settle, "form", lambda: b"another")
    publish(bucket, listed_build(OLDER + 1))
    assert stale(bucket) == []
    assert bucket.read(mark_key(3)) == b"another"


def test_publishing_what_is_there_compares_everything() -> None:
    bucket = Memory()
    publish(bucket, *(listed_build(number) for number in range(OLDER)))
    bucket.edit("builds/0.2.7.html", b"as it looked before")
    publish(bucket, listed_build(7))
    assert stale(bucket) == []


def test_going_back_to_an_older_catalog_by_hand_leaves_no_page_of_the_newer() -> None:
    bucket = Memory()
    publish(bucket, *(listed_build(number) for number in range(OLDER)))
    publish(bucket, listed_build(7, "two"), listed_build(OLDER))
    for key in (generation_key(2), HINT):
        bucket.delete(key)
    publish(bucket, listed_build(OLDER + 1))
    assert [fault for fault in fsck(bucket).faults if fault.kind == "stale"] == []


def test_the_form_is_of_every_file_of_hostwheel(tmp_path: Path) -> None:
    names = {str(path.relative_to(settle.PACKAGE)) for path in settle.sources(settle.PACKAGE)}
    assert {"publish/front_table.py", "publish/template/front.css", "audit/markup.py"} <= names
    assert not any("__pycache__" in name for name in names)
