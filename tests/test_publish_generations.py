"""Which generation of a catalog is the newest, whatever was done to its bucket."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hostwheel.errors import Refused
from hostwheel.publish.bucket import Bucket
from hostwheel.publish.catalog import Catalog
from hostwheel.publish.fsck import fsck
from hostwheel.publish.generations import HINT, generation_key, newest
from hostwheel.publish.settle import settle
from tests.buckets import tiny_wheel
from tests.published import published
from tests.stores import Memory

pytest_plugins = ["tests.publish_fixtures"]


def three(bucket: Bucket, folder: Path) -> Catalog:
    for number in range(1, 4):
        published(bucket, tiny_wheel(folder, f"{number}.0+cpu.avx2"))
    return newest(bucket)


def test_an_old_hint_leads_to_the_newest(tmp_path: Path) -> None:
    bucket = Memory()
    catalog = three(bucket, tmp_path)
    bucket.edit(HINT, bucket.read(generation_key(1)) or b"")
    assert newest(bucket) == catalog


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b'{"generation": 99}', b'{"schema": 1, "generation": 99, "x": 1}']
)
def test_a_hint_that_says_nothing_true_does_no_harm(tmp_path: Path, text: bytes) -> None:
    bucket = Memory()
    catalog = three(bucket, tmp_path)
    bucket.edit(HINT, text)
    assert newest(bucket) == catalog


def test_a_hint_edited_by_hand_adds_and_takes_nothing(tmp_path: Path) -> None:
    bucket = Memory()
    catalog = three(bucket, tmp_path)
    content = json.loads(bucket.read(HINT) or b"")
    bucket.edit(HINT, json.dumps({**content, "entries": content["entries"][:1]}).encode())
    assert newest(bucket) == catalog
    settle(bucket, newest(bucket))
    assert fsck(bucket).faults == ()


def test_without_a_hint_all_generations_are_looked_at(tmp_path: Path) -> None:
    bucket = Memory()
    catalog = three(bucket, tmp_path)
    bucket.delete(HINT)
    bucket.delete(generation_key(1))
    assert newest(bucket) == catalog


def test_a_newest_generation_deleted_by_hand_is_known_from_the_hint(tmp_path: Path) -> None:
    bucket = Memory()
    catalog = three(bucket, tmp_path)
    bucket.delete(generation_key(3))
    assert newest(bucket) == catalog
    fourth = published(bucket, tiny_wheel(tmp_path, "4.0+cpu.avx2"))
    assert newest(bucket).entries == (*catalog.entries, fourth)


def test_an_old_hint_whose_generations_were_pruned_does_not_lead_back(tmp_path: Path) -> None:
    bucket = Memory()
    first = bucket
    published(bucket, tiny_wheel(tmp_path, "0.0+cpu.avx2"))
    old = first.read(HINT) or b""
    catalog = three(bucket, tmp_path)
    for number in (1, 2, 3):
        bucket.delete(generation_key(number))
    bucket.edit(HINT, old)
    assert newest(bucket) == catalog


def test_a_catalog_of_a_newer_hostwheel_is_not_overwritten(tmp_path: Path) -> None:
    bucket = Memory()
    three(bucket, tmp_path)
    newer = (bucket.read(generation_key(3)) or b"").replace(b'"schema": 1', b'"schema": 2')
    bucket.edit(generation_key(3), newer)
    before = bucket.state()
    with pytest.raises(Exception, match="use a newer one"):
        published(bucket, tiny_wheel(tmp_path, "4.0+cpu.avx2"))
    added = set(bucket.state()) - set(before)
    assert all(key.startswith("objects/") for key in added)


@pytest.mark.parametrize("ours", [0, 2])
def test_the_copy_of_another_buckets_catalog_is_not_taken_for_ours(
    tmp_path: Path, ours: int
) -> None:
    """Copied here by hand."""
    bucket, other = Memory(), Memory()
    for number in range(ours):
        published(bucket, tiny_wheel(tmp_path / "ours", f"1.{number}+cpu.avx2"))
    for number in range(5):
        published(other, tiny_wheel(tmp_path / "theirs", f"2.{number}+cpu.avx2"))
    for key in (HINT, *((generation_key(5),) if ours else ())):
        bucket.held[key] = other.held[key]
    bucket.delete(generation_key(5))
    with pytest.raises(Refused, match=r"is of generation 5, while catalog/ ends with [02]"):
        newest(bucket)


def test_a_copy_that_lists_less_than_the_generation_before_it_is_refused(tmp_path: Path) -> None:
    bucket = Memory()
    catalog = three(bucket, tmp_path)
    bucket.delete(generation_key(3))
    bucket.edit(HINT, replace(catalog, entries=catalog.entries[1:]).json().encode())
    with pytest.raises(Refused, match="if generations were deleted here, put them back"):
        newest(bucket)
