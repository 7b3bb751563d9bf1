"""What fsck mends, and what it cannot."""

from dataclasses import replace
from pathlib import Path

import pytest

from hostwheel.errors import BadInput, Refused
from hostwheel.publish.evidence import read_evidence
from hostwheel.publish.fsck import fsck
from hostwheel.publish.generations import (
    HINT,
    generation_key,
    newest,
)
from hostwheel.publish.page import Page
from hostwheel.publish.publish import publish
from hostwheel.publish.repair import repair
from hostwheel.publish.through import Through
from hostwheel.publish.yank import yank
from tests.proved import proved
from tests.published import faults, no_progress, of_kind
from tests.stores import Memory

pytest_plugins = ["tests.publish_fixtures"]


def but_generations(bucket: Memory) -> tuple[object, dict[str, bytes]]:
    """The newest entries, and all else but the catalog: pages are mended in a new generation."""
    rest = {key: body for key, body in bucket.state().items() if not key.startswith("catalog")}
    return newest(bucket).entries, rest


DERIVED = (
    "simple/",
    "simple/llama-cpp-python/index.html",
    "cpu-avx2/simple-json/llama-cpp-python/",
    HINT,
)


@pytest.mark.parametrize("edit", ["edited", "deleted"])
@pytest.mark.parametrize("key", [*DERIVED, "metadata", "copy", "copy's metadata"])
def test_what_can_be_made_from_the_rest_is_mended(bucket: Memory, key: str, edit: str) -> None:
    before = but_generations(bucket)
    copy = of_kind(bucket, "variant").key
    names = {
        "metadata": f"{of_kind(bucket, 'wheel').key}.metadata",
        "copy": copy,
        "copy's metadata": f"{copy}.metadata",
    }
    key = names.get(key, key)
    if edit == "edited":
        bucket.edit(key, b"{}")
    else:
        bucket.delete(key)
    looked = fsck(bucket)
    assert looked.faults
    assert repair(bucket, looked).faults == ()
    assert but_generations(bucket) == before


def test_what_has_two_faults_is_removed_once(bucket: Memory) -> None:
    class Once(Through):
        def delete(self, key: str) -> None:
            assert self.exists(key), f"{key} is not there"
            super().delete(key)

    bucket.edit(f"{of_kind(bucket, 'wheel').key}.metadata", b"Name: other\n")
    assert len(fsck(bucket).faults) == 2
    assert repair(Once(bucket), fsck(bucket)).faults == ()


def test_everything_derived_is_made_anew_at_once(bucket: Memory) -> None:
    before = but_generations(bucket)
    for key in bucket.state():
        if "simple" in key or key.endswith(("variants.json", ".metadata", HINT)):
            bucket.delete(key)
    assert repair(bucket, fsck(bucket)).faults == ()
    assert but_generations(bucket) == before


def test_a_generation_deleted_by_hand_is_made_from_its_copy(bucket: Memory) -> None:
    before = bucket.state()
    bucket.delete(generation_key(1))
    assert faults(bucket) >= {("missing", generation_key(1))}
    assert repair(bucket, fsck(bucket)).faults == ()
    assert bucket.state() == before


def test_a_newest_generation_that_cannot_be_read_is_made_from_its_copy(bucket: Memory) -> None:
    before = bucket.state()
    bucket.edit(generation_key(1), b'{"schema": 1, ')
    with pytest.raises(BadInput, match=r"catalog/00000001\.json: no catalog"):
        newest(bucket)
    assert ("damaged", generation_key(1)) in faults(bucket)
    assert repair(bucket, fsck(bucket)).faults == ()
    assert bucket.state() == before


def test_a_newest_generation_that_lists_what_never_was_is_made_from_its_copy(
    bucket: Memory,
) -> None:
    before = bucket.state()
    text, sha256 = bucket.read(HINT) or b"", of_kind(bucket, "wheel").sha256.encode()
    bucket.edit(generation_key(1), text.replace(sha256, b"0" * 64))
    assert "missing" in {kind for kind, _ in faults(bucket)}
    assert repair(bucket, fsck(bucket)).faults == ()
    assert bucket.state() == before


def test_a_copy_that_lists_less_is_not_taken(bucket: Memory) -> None:
    truth = bucket.read(generation_key(1))
    bucket.delete(of_kind(bucket, "archive").key)
    less = replace(newest(bucket), entries=())
    bucket.edit(HINT, less.json().encode())
    assert "missing" in {fault.kind for fault in repair(bucket, fsck(bucket)).faults}
    assert bucket.read(generation_key(1)) == truth


def test_without_a_copy_that_is_as_new_nothing_is_concluded(bucket: Memory) -> None:
    old = bucket.read(HINT) or b""
    yank(bucket, of_kind(bucket, "archive").filename, "why")
    bucket.edit(generation_key(2), b"{")
    bucket.edit(HINT, old)
    with pytest.raises(BadInput, match=r"catalog/00000002\.json: no catalog"):
        fsck(bucket)


@pytest.mark.parametrize("kind", ["wheel", "archive"])
def test_what_has_to_come_from_the_build_is_named_and_makes_way_for_it(
    bucket: Memory, tmp_path: Path, kind: str
) -> None:
    before = bucket.state()
    entry = of_kind(bucket, kind)
    bucket.edit(entry.key, b"damaged")
    left = repair(bucket, fsck(bucket)).faults
    (fault,) = [each for each in left if each.kind == "missing"]
    assert fault.key == entry.key
    assert fault.remedy == "publish cpu-avx2's out/ folder of 0.3.36+cpu.avx2 again"
    publish(read_evidence(proved(tmp_path)), bucket, no_progress)
    assert fsck(bucket).faults == ()
    assert bucket.state() == before


def test_pages_of_what_is_no_longer_there_are_removed_and_nothing_else(bucket: Memory) -> None:
    for key in ("simple/gone/", "old-recipe/simple/index.html", "notes.txt", "my/simple.txt"):
        bucket.put(Page(key=key, body=b"", content_type="", cache_control=""))
    left = repair(bucket, fsck(bucket)).faults
    assert {fault.key for fault in left} == {"notes.txt", "my/simple.txt"}


def test_a_damaged_generation_is_mended_without_a_moment_in_which_it_is_not_there(
    bucket: Memory,
) -> None:
    """Or one who has read the generation before would take its number."""
    yank(bucket, of_kind(bucket, "archive").filename, "why")
    entries = newest(bucket).entries
    bucket.edit(generation_key(2), b"{half")

    class Kept(Through):
        def delete(self, key: str) -> None:
            assert not key.startswith("catalog/"), key
            super().delete(key)

    assert repair(Kept(bucket), fsck(bucket)).faults == ()
    assert newest(bucket).entries == entries


def test_a_generation_that_another_made_meanwhile_is_not_overwritten(bucket: Memory) -> None:
    """It was deleted by hand; before it is put back, someone publishes."""
    yank(bucket, of_kind(bucket, "archive").filename, "why")
    looked = fsck(bucket)
    first = bucket.held[generation_key(1)]
    theirs = replace(newest(bucket), entries=newest(bucket).entries[:1]).json().encode()
    bucket.delete(generation_key(2))

    class Meanwhile(Through):
        def create(self, page: Page) -> bool:
            bucket.put(replace(first[0], key=generation_key(2), body=theirs))
            return super().create(page)

    with pytest.raises(Refused, match="another published meanwhile"):
        repair(Meanwhile(bucket), looked)
    assert bucket.read(generation_key(2)) == theirs
