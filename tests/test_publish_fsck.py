"""A bucket looked at: what is wrong with it, and what its pages link to."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from hostwheel.errors import BadInput
from hostwheel.publish.bucket import Stored
from hostwheel.publish.catalog import Catalog, Entry
from hostwheel.publish.fsck import fsck
from hostwheel.publish.generations import (
    HINT,
    generation_key,
    newest,
    read_generation,
)
from hostwheel.publish.hrefs import links_of
from hostwheel.publish.page import Page
from hostwheel.publish.repair import repair
from hostwheel.publish.settle import advance_and_settle, mark_key
from hostwheel.publish.through import Through
from hostwheel.publish.yank import yank
from tests.published import evidence_key, faults, of_kind
from tests.stores import Memory

pytest_plugins = ["tests.publish_fixtures"]


def test_nothing_is_wrong_with_what_was_published(bucket: Memory) -> None:
    assert fsck(bucket).faults == ()


def test_a_bucket_without_a_catalog_is_no_input() -> None:
    with pytest.raises(BadInput, match="nothing was published here"):
        fsck(Memory())


@pytest.mark.parametrize("kind", ["wheel", "archive", "variant"])
def test_e2_a_file_that_is_gone_is_found(bucket: Memory, kind: str) -> None:
    """E2: on the page, and not there."""
    key = of_kind(bucket, kind).key
    bucket.delete(key)
    found = faults(bucket)
    assert ("missing", key) in found
    pages = {page for fault, page in found if fault == "dangling"}
    assert ("simple/llama-cpp-python/index.html" in pages) == (kind != "archive")


def test_a_truncated_file_is_found(bucket: Memory) -> None:
    entry = of_kind(bucket, "wheel")
    bucket.edit(entry.key, (bucket.read(entry.key) or b"")[:999])
    (fault,) = fsck(bucket).faults
    assert (fault.kind, fault.key) == ("damaged", entry.key)
    assert "(999 bytes), expected " + entry.sha256 in fault.message


@pytest.mark.parametrize("name", ["build.json", "audit.json", "smoke.json", "audit.html"])
def test_evidence_that_was_edited_or_is_gone_is_found(bucket: Memory, name: str) -> None:
    key = evidence_key(bucket, name)
    bucket.edit(key, b"{}")
    assert ("damaged", key) in faults(bucket)
    bucket.delete(key)
    assert ("missing", key) in faults(bucket)


def test_metadata_is_that_in_the_wheel(bucket: Memory) -> None:
    key = f"{of_kind(bucket, 'wheel').key}.metadata"
    bucket.edit(key, b"Name: other\n")
    messages = {fault.message.split(" (")[0][:10] for fault in fsck(bucket).faults}
    assert {("damaged", key)} == faults(bucket)
    assert len(messages) == 2  # its hash, and the comparison


def test_metadata_that_the_catalog_agrees_with_is_still_held_against_the_wheel(
    bucket: Memory,
) -> None:
    entry = of_kind(bucket, "wheel")
    text = b"Metadata-Version: 2.2\nName: llama_cpp_python\n"
    bucket.edit(f"{entry.key}.metadata", text)
    wrong = replace(entry, metadata=hashlib.sha256(text).hexdigest())
    advance_and_settle(bucket, newest(bucket), once(wrong))
    (fault,) = fsck(bucket).faults
    assert fault.message == "is not the METADATA in the wheel"


def once(entry: Entry) -> Callable[[Catalog], tuple[Entry, ...]]:
    return lambda catalog: () if entry in catalog.entries else (entry,)


@pytest.mark.parametrize(
    "key", ["simple/", "simple/llama-cpp-python/index.html", "cpu-avx2/simple-json/", HINT]
)
def test_a_page_that_was_edited_or_is_gone_is_found(bucket: Memory, key: str) -> None:
    bucket.edit(key, b"{}")
    assert faults(bucket) == {("stale", key)}
    bucket.delete(key)
    assert ("missing", key) in faults(bucket)


def test_e1_a_link_to_nothing_is_found(bucket: Memory) -> None:
    """E1: the list of indexes was kept by hand."""
    key = "simple/index.html"
    bucket.edit(key, b'<a href="cu123/">cu123</a> <a href="../objects/x%2By">x</a>')
    messages = {fault.message for fault in fsck(bucket).faults if fault.kind == "dangling"}
    assert messages == {
        "links to simple/cu123/index.html, which is not there",
        "links to objects/x+y, which is not there",
    }


def test_a_generation_that_cannot_be_read_is_found(bucket: Memory) -> None:
    yank(bucket, of_kind(bucket, "archive").filename, "why")
    bucket.edit(generation_key(1), b"{")
    assert ("damaged", generation_key(1)) in faults(bucket)


def test_a_generation_under_another_number_is_told_and_leads_nobody_round(bucket: Memory) -> None:
    stray = generation_key(2)
    first = bucket.held[generation_key(1)][0]
    bucket.put(replace(first, key=stray))
    wheel = of_kind_in(bucket, "wheel")
    with pytest.raises(BadInput, match=rf"{stray}: says that it is generation 1"):
        yank(bucket, wheel.filename, "why")
    assert faults(bucket) == {("damaged", stray)}
    bucket.delete(stray)
    assert fsck(bucket).faults == ()


def of_kind_in(bucket: Memory, kind: str) -> Entry:
    """Of the first generation, whatever comes after it."""
    catalog = read_generation(bucket, 1)
    assert catalog
    return next(each for each in catalog.entries if each.kind == kind)


def test_a_gap_in_the_numbers_is_told_once_and_what_was_pruned_is_none(bucket: Memory) -> None:
    for reason in ("a", "b", "c"):
        yank(bucket, of_kind(bucket, "archive").filename, reason)
    for key in (generation_key(1), mark_key(1)):
        bucket.delete(key)
    assert fsck(bucket).faults == ()
    bucket.held[generation_key(1)] = bucket.held[generation_key(4)]
    bucket.edit(generation_key(1), (bucket.read(HINT) or b"").replace(b": 4,", b": 1,", 1))
    for key in (generation_key(2), generation_key(3), mark_key(2), mark_key(3)):
        bucket.delete(key)
    (fault,) = fsck(bucket).faults
    assert (fault.kind, fault.key) == ("missing", generation_key(2))
    assert "between 1 and 4" in fault.message


def test_a_size_that_the_object_does_not_have_is_told_and_the_object_stays(bucket: Memory) -> None:
    entry = of_kind(bucket, "wheel")
    advance_and_settle(bucket, newest(bucket), once(replace(entry, size=7)))
    (fault,) = fsck(bucket).faults
    assert (fault.kind, fault.key) == ("stale", generation_key(2))
    assert f"says 7 bytes of {entry.filename}" in fault.message
    repair(bucket, fsck(bucket))
    assert bucket.exists(entry.key)


def test_what_nothing_refers_to_is_found(bucket: Memory) -> None:
    for key in ("objects/00/00/x.whl", "simple/gone/index.html", "notes.txt"):
        bucket.put(Page(key=key, body=b"", content_type="", cache_control=""))
    found = fsck(bucket).faults
    assert {(fault.kind, fault.key) for fault in found} == {
        ("orphan", "objects/00/00/x.whl"),
        ("orphan", "simple/gone/index.html"),
        ("orphan", "notes.txt"),
    }
    assert all(fault.remedy for fault in found)


def test_links_of_pages() -> None:
    page = b'<a href="../../objects/a%2Bb.whl#sha256=0">a</a><a href="x/">x</a><b href="no">'
    assert list(links_of("simple/p/", page)) == ["objects/a+b.whl", "simple/p/x/index.html"]
    assert list(links_of("simple-json/p/index.json", b'{"files": [{"url": "../../o/x"}]}')) == [
        "o/x"
    ]
    assert list(links_of("x.json", b'{"variants": {}}')) == []
    assert list(links_of("x.json", b'{"cut')) == []


def test_what_is_published_while_fsck_looks_is_no_fault(bucket: Memory) -> None:
    class Published(Through):
        looked = 0

        def list(self, prefix: str) -> Iterator[Stored]:
            found = tuple(super().list(prefix))
            if not self.looked:
                yank(bucket, of_kind(bucket, "archive").filename, "meanwhile")
            self.looked += 1
            return iter(found)

    looking = Published(bucket)
    assert fsck(looking).faults == ()
    assert looking.looked > 1
