"""Generations and objects pruned, files yanked."""

from datetime import timedelta
from pathlib import Path

import pytest

from hostwheel.errors import BadInput, Refused
from hostwheel.publish.bucket import CLOCK
from hostwheel.publish.evidence import Evidence, read_evidence
from hostwheel.publish.fsck import fsck
from hostwheel.publish.generations import (
    HINT,
    generation_key,
    newest,
)
from hostwheel.publish.prune import needed_keys, prune
from hostwheel.publish.publish import publish
from hostwheel.publish.settle import GRACE
from hostwheel.publish.through import Dry, Through
from hostwheel.publish.yank import yank
from tests.proved import PASSED, proved, write_smoke
from tests.published import no_progress, of_kind
from tests.stores import Before, Crashed, Crashing, Memory

pytest_plugins = ["tests.publish_fixtures"]
LATER = GRACE + timedelta(hours=1)


def grown(bucket: Memory, tmp_path: Path) -> None:
    """Three generations, the middle one with evidence of its own."""
    out = proved(tmp_path)
    for number in (2, 3):
        write_smoke(out, [PASSED] * number)
        publish(read_evidence(out), bucket, no_progress)


def test_pruning_keeps_what_the_index_lists_and_the_last_generations(
    bucket: Memory, tmp_path: Path
) -> None:
    grown(bucket, tmp_path)
    catalog = newest(bucket)
    bucket.age(LATER)
    removed = prune(bucket, 1)
    assert {generation_key(1), generation_key(2)} <= set(removed)
    assert len([key for key in removed if key.endswith("smoke.json")]) == 2
    assert set(needed_keys(catalog.entries)) <= set(bucket.held)
    assert newest(bucket) == catalog
    assert fsck(bucket).faults == ()


def test_a_kept_generation_keeps_its_objects(bucket: Memory, tmp_path: Path) -> None:
    grown(bucket, tmp_path)
    bucket.age(LATER)
    removed = prune(bucket, 2)
    assert generation_key(2) not in removed
    assert len([key for key in removed if key.endswith("smoke.json")]) == 1
    assert fsck(bucket).faults == ()


def test_what_is_young_may_belong_to_a_publisher_that_is_at_it(
    bucket: Memory, tmp_path: Path
) -> None:
    grown(bucket, tmp_path)
    out = proved(tmp_path / "other")
    write_smoke(out, [PASSED] * 7)
    with pytest.raises(Crashed):
        publish(read_evidence(out), Crashing(bucket, 4), no_progress)
    bucket.age(GRACE)
    before = bucket.state()
    assert prune(bucket, 1) == ()
    assert bucket.state() == {**before, CLOCK: b""}
    bucket.age(LATER - GRACE)
    assert prune(bucket, 1)


def test_pruning_first_brings_an_old_hint_up_to_date(bucket: Memory, tmp_path: Path) -> None:
    old = bucket.read(HINT) or b""
    grown(bucket, tmp_path)
    entries = newest(bucket).entries
    bucket.edit(HINT, old)
    bucket.age(LATER)
    prune(bucket, 1)
    assert newest(bucket).entries == entries
    assert fsck(bucket).faults == ()


def test_a_dry_run_of_pruning_removes_nothing(bucket: Memory, tmp_path: Path) -> None:
    grown(bucket, tmp_path)
    before = bucket.state()
    bucket.age(LATER)
    would = prune(Dry(bucket), 1)
    assert bucket.state() == before
    assert prune(bucket, 1) == would


def test_a_crash_while_pruning_leaves_an_index_that_holds(bucket: Memory, tmp_path: Path) -> None:
    grown(bucket, tmp_path)
    bucket.age(LATER)
    whole = dict(bucket.held)
    for left in range(7):
        bucket.held = dict(whole)
        try:
            prune(Crashing(bucket, left), 1)
        except Crashed:
            assert {fault.kind for fault in fsck(bucket).faults} <= {"orphan"}
            prune(bucket, 1)
        assert fsck(bucket).faults == ()


def left_behind(bucket: Memory, tmp_path: Path) -> Evidence:
    """Of a publish that was stopped days ago: some of its objects are there, and no generation."""
    out = proved(tmp_path)
    write_smoke(out, [PASSED] * 5)
    evidence = read_evidence(out)
    with pytest.raises(Crashed):
        publish(evidence, Crashing(bucket, 4), no_progress)
    bucket.age(LATER)
    return evidence


def test_an_object_taken_up_again_while_it_was_pruned_is_told(
    bucket: Memory, tmp_path: Path
) -> None:
    """An old publisher's evidence is what nothing refers to; just then it is published again."""
    evidence = left_behind(bucket, tmp_path)

    class Deleting(Through):
        def delete(self, key: str) -> None:
            publish(evidence, bucket, no_progress)
            super().delete(key)

    with pytest.raises(Refused, match="published while this was pruning"):
        prune(Deleting(bucket), 1)


def test_an_object_that_was_pruned_while_its_publish_went_on_is_put_back(
    bucket: Memory, tmp_path: Path
) -> None:
    """It was stopped days ago, and finds its objects there; until its generation is made, nothing
    refers to them."""
    evidence = left_behind(bucket, tmp_path)
    removed: list[str] = []
    pruning = Before(bucket, "catalog/", lambda: removed.extend(prune(bucket, 1)))
    publish(evidence, pruning, no_progress)
    assert [key for key in removed if key.endswith("smoke.json")]
    assert fsck(bucket).faults == ()


def test_pruning_leaves_no_gap(bucket: Memory, tmp_path: Path) -> None:
    """The oldest generation was put back by hand, and is young."""
    grown(bucket, tmp_path)
    bucket.age(LATER)
    bucket.edit(generation_key(1), bucket.read(generation_key(1)) or b"")
    assert not [key for key in prune(bucket, 1) if key.startswith("catalog/")]
    assert fsck(bucket).faults == ()


def test_none_cannot_be_kept(bucket: Memory) -> None:
    with pytest.raises(BadInput, match="give 1 or more"):
        prune(bucket, 0)


# yank


def test_a_wheel_is_yanked_with_its_copy_and_back(bucket: Memory) -> None:
    wheel = of_kind(bucket, "wheel")
    catalog = yank(bucket, wheel.filename, "wrong rope scaling")
    reasons = {each.kind: each.yanked for each in catalog.entries}
    reason = "wrong rope scaling"
    assert reasons == {"wheel": reason, "variant": reason, "archive": None}
    page = (bucket.read("simple/llama-cpp-python/") or b"").decode()
    assert page.count(f'data-yanked="{reason}"') == 2
    assert yank(bucket, wheel.filename, reason).generation == 2  # nothing new
    assert yank(bucket, wheel.filename, None).generation == 3
    assert "data-yanked" not in (bucket.read("simple/llama-cpp-python/") or b"").decode()
    assert fsck(bucket).faults == ()


def test_publishing_again_does_not_take_a_yank_back(bucket: Memory, tmp_path: Path) -> None:
    wheel = of_kind(bucket, "wheel")
    yank(bucket, wheel.filename, "why")
    done = publish(read_evidence(proved(tmp_path)), bucket, no_progress)
    assert (done.changed, of_kind(bucket, "wheel").yanked) == ((), "why")


def test_a_copy_or_an_archive_is_yanked_alone(bucket: Memory) -> None:
    catalog = yank(bucket, of_kind(bucket, "variant").filename, "why")
    assert [each.kind for each in catalog.entries if each.yanked] == ["variant"]


def test_what_is_not_published_cannot_be_yanked(bucket: Memory) -> None:
    wheel = of_kind(bucket, "wheel").filename
    with pytest.raises(BadInput, match=r"is not published here; .*llama_cpp_python"):
        yank(bucket, wheel[:-1], "why")
    with pytest.raises(BadInput, match="its catalog is empty"):
        yank(Memory(), wheel, "why")


@pytest.mark.parametrize("reason", ["", " \n"])
def test_a_yank_needs_a_reason(bucket: Memory, reason: str) -> None:
    with pytest.raises(BadInput, match="--reason is empty"):
        yank(bucket, of_kind(bucket, "wheel").filename, reason)


def test_two_who_yank_at_once_lose_nothing(bucket: Memory) -> None:
    wheel, archive = of_kind(bucket, "wheel"), of_kind(bucket, "archive")

    def other() -> None:
        yank(bucket, archive.filename, "theirs")

    yank(Before(bucket, "catalog/", other), wheel.filename, "ours")
    reasons = {each.kind: each.yanked for each in newest(bucket).entries}
    assert reasons == {"wheel": "ours", "variant": "ours", "archive": "theirs"}
