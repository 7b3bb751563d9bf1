"""Publishers that are stopped, or meet."""

from pathlib import Path

import pytest

from hostwheel.publish.catalog import Entry
from hostwheel.publish.evidence import Evidence
from hostwheel.publish.fsck import fsck
from hostwheel.publish.generations import HINT, generation_key, newest
from hostwheel.publish.prune import needed_keys
from hostwheel.publish.settle import mark_key, settle
from hostwheel.trust.sums import SUMS
from tests.buckets import tiny_wheel
from tests.published import listed, published, put_up
from tests.stores import Before, Crashed, Crashing, Memory, Overwriting

pytest_plugins = ["tests.publish_fixtures"]

LONGEST = 60  # writes of one publish; a test that crashes after each would not end otherwise


def test_e15_objects_come_first_then_the_generation_then_the_index(evidence: Evidence) -> None:
    """E15: part of a matrix went up, and the index said all of it."""
    bucket = Memory()
    put_up(evidence, bucket)
    order = list(bucket.held)
    generation = order.index(generation_key(1))
    needed = set(needed_keys(newest(bucket).entries))
    assert max(order.index(key) for key in needed) < generation
    pages = [order.index(key) for key in order if "simple" in key]
    assert generation < min(pages)
    assert order[max(pages) + 1 :] == ["index.html", SUMS, HINT, mark_key(1)]


def test_a_crash_after_any_write_leaves_an_index_that_holds(
    evidence: Evidence, tmp_path: Path
) -> None:
    before = Memory()
    old = published(before, tiny_wheel(tmp_path, "1.0+cpu.avx2"))
    new = {each.filename for each in put_up(evidence, Memory()).entries if each.kind != "archive"}
    for left in range(LONGEST):
        bucket = Memory()
        bucket.held.update(before.held)
        try:
            put_up(evidence, Crashing(bucket, left))
        except Crashed:
            finished = False
        else:
            finished = True
        names = listed(bucket)
        assert old.filename in names, left
        put_up(evidence, bucket)
        assert new <= listed(bucket), left
        assert fsck(bucket).faults == (), left
        if finished:
            return
    pytest.fail(f"a publish takes more than {LONGEST} writes")


def test_an_interrupted_publish_goes_on_without_writing_again_what_is_there(
    evidence: Evidence,
) -> None:
    bucket = Memory()
    with pytest.raises(Crashed):
        put_up(evidence, Crashing(bucket, 6))
    went_up = dict(bucket.held)
    put_up(evidence, bucket)
    assert all(bucket.held[key] is held for key, held in went_up.items())


# two at once


def test_a_lost_race_adds_to_what_the_other_published(evidence: Evidence, tmp_path: Path) -> None:
    bucket = Memory()
    others: list[Entry] = []

    def other() -> None:
        others.append(published(bucket, tiny_wheel(tmp_path, "1.0+cpu.avx2")))

    done = put_up(evidence, Before(bucket, "catalog/", other))
    assert done.catalog.generation == 2
    assert others[0] in done.catalog.entries
    assert fsck(bucket).faults == ()


@pytest.mark.parametrize("moment", ["simple/", "cpu-avx2/simple-json/", HINT])
def test_who_overwrites_a_newer_index_writes_the_newest_after_it(
    evidence: Evidence, tmp_path: Path, moment: str
) -> None:
    bucket = Memory()

    def other() -> None:
        published(bucket, tiny_wheel(tmp_path, "1.0+cpu.avx2"))

    done = put_up(evidence, Before(bucket, moment, other))
    assert done.catalog.generation == 2
    assert fsck(bucket).faults == ()


def test_stale_pages_of_one_who_was_stopped_are_mended_by_the_next(
    evidence: Evidence, tmp_path: Path
) -> None:
    """The slow one is overtaken, overwrites newer pages, and dies before it sees that."""
    bucket = Memory()

    def other() -> None:
        published(bucket, tiny_wheel(tmp_path / "a", "1.0+cpu.avx2"))

    settle(bucket, put_up(evidence, bucket).catalog)
    first = dict(bucket.held)
    other()
    bucket.held.update({key: held for key, held in first.items() if "simple" in key})
    bucket.held[HINT] = first[HINT]
    assert {fault.kind for fault in fsck(bucket).faults} == {"stale"}
    published(bucket, tiny_wheel(tmp_path / "b", "2.0+cpu.avx2"))
    assert newest(bucket).generation == 3
    assert fsck(bucket).faults == ()


def test_a_store_that_overwrites_loses_what_another_published(
    evidence: Evidence, tmp_path: Path
) -> None:
    """Why there is a probe: this is what it keeps from happening."""
    bucket = Memory()
    others: list[Entry] = []

    def other() -> None:
        others.append(published(bucket, tiny_wheel(tmp_path, "1.0+cpu.avx2")))

    put_up(evidence, Before(Overwriting(bucket), "catalog/", other))
    assert others[0] not in newest(bucket).entries
