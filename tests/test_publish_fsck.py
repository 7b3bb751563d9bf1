"""A bucket looked at, mended, pruned, and files of it yanked."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from hostwheel.errors import BadInput, Refused
from hostwheel.publish.catalog import Catalog, Entry
from hostwheel.publish.evidence import read_evidence
from hostwheel.publish.fsck import fsck
from hostwheel.publish.generations import (
    HINT,
    generation_key,
    newest,
    read_generation,
)
from hostwheel.publish.hrefs import links_of
from hostwheel.publish.page import Page
from hostwheel.publish.prune import needed_keys, prune
from hostwheel.publish.publish import publish
from hostwheel.publish.repair import repair
from hostwheel.publish.settle import GRACE, advance_and_settle, mark_key
from hostwheel.publish.through import Dry, Through
from hostwheel.publish.yank import yank
from tests.proved import PASSED, proved, write_smoke
from tests.stores import Before, Crashed, Crashing, Memory

LATER = GRACE + timedelta(hours=1)


def no_progress(name: str, done: int, total: int) -> None:
    pass


@pytest.fixture(scope="session")
def first(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    bucket = Memory()
    publish(read_evidence(proved(tmp_path_factory.mktemp("first"))), bucket, no_progress)
    return bucket


@pytest.fixture
def bucket(first: Memory) -> Memory:
    """A published build: its wheel, archive and variant copy."""
    copied = Memory()
    copied.held.update(first.held)
    copied.now = first.now
    return copied


def of_kind(bucket: Memory, kind: str) -> Entry:
    (found,) = [each for each in newest(bucket).entries if each.kind == kind]
    return found


def faults(bucket: Memory) -> set[tuple[str, str]]:
    return {(fault.kind, fault.key) for fault in fsck(bucket).faults}


def evidence_key(bucket: Memory, name: str) -> str:
    entry = of_kind(bucket, "wheel")
    return f"objects/{entry.evidence[name][:2]}/{entry.evidence[name]}/{name}"


# fsck


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


# repair


def unmarked(bucket: Memory) -> dict[str, bytes]:
    """Whoever mends a page takes the mark away, so that the next publisher looks at all of them."""
    return {key: body for key, body in bucket.state().items() if not key.endswith(".settled")}


DERIVED = (
    "simple/",
    "simple/llama-cpp-python/index.html",
    "cpu-avx2/simple-json/llama-cpp-python/",
    HINT,
)


@pytest.mark.parametrize("edit", ["edited", "deleted"])
@pytest.mark.parametrize("key", [*DERIVED, "metadata", "copy", "copy's metadata"])
def test_what_can_be_made_from_the_rest_is_mended(bucket: Memory, key: str, edit: str) -> None:
    before = unmarked(bucket)
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
    assert unmarked(bucket) == before


def test_what_has_two_faults_is_removed_once(bucket: Memory) -> None:
    class Once(Through):
        def delete(self, key: str) -> None:
            assert self.exists(key), f"{key} is not there"
            super().delete(key)

    bucket.edit(f"{of_kind(bucket, 'wheel').key}.metadata", b"Name: other\n")
    assert len(fsck(bucket).faults) == 2
    assert repair(Once(bucket), fsck(bucket)).faults == ()


def test_everything_derived_is_made_anew_at_once(bucket: Memory) -> None:
    before = unmarked(bucket)
    for key in before:
        if "simple" in key or key.endswith(("variants.json", ".metadata", HINT)):
            bucket.delete(key)
    assert repair(bucket, fsck(bucket)).faults == ()
    assert unmarked(bucket) == before


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


# prune


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
    removed = prune(bucket, 1, bucket.now + LATER)
    assert {generation_key(1), generation_key(2)} <= set(removed)
    assert len([key for key in removed if key.endswith("smoke.json")]) == 2
    assert set(needed_keys(catalog.entries)) <= set(bucket.held)
    assert newest(bucket) == catalog
    assert fsck(bucket).faults == ()


def test_a_kept_generation_keeps_its_objects(bucket: Memory, tmp_path: Path) -> None:
    grown(bucket, tmp_path)
    removed = prune(bucket, 2, bucket.now + LATER)
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
    before = bucket.state()
    assert prune(bucket, 1, bucket.now + GRACE) == ()
    assert bucket.state() == before
    assert prune(bucket, 1, bucket.now + LATER)


def test_pruning_first_brings_an_old_hint_up_to_date(bucket: Memory, tmp_path: Path) -> None:
    old = bucket.read(HINT) or b""
    grown(bucket, tmp_path)
    catalog = newest(bucket)
    bucket.edit(HINT, old)
    prune(bucket, 1, bucket.now + LATER)
    assert newest(bucket) == catalog
    assert fsck(bucket).faults == ()


def test_a_dry_run_of_pruning_removes_nothing(bucket: Memory, tmp_path: Path) -> None:
    grown(bucket, tmp_path)
    before = bucket.state()
    would = prune(Dry(bucket), 1, bucket.now + LATER)
    assert bucket.state() == before
    assert prune(bucket, 1, bucket.now + LATER) == would


def test_a_crash_while_pruning_leaves_an_index_that_holds(bucket: Memory, tmp_path: Path) -> None:
    grown(bucket, tmp_path)
    whole = dict(bucket.held)
    for left in range(6):
        bucket.held = dict(whole)
        try:
            prune(Crashing(bucket, left), 1, bucket.now + LATER)
        except Crashed:
            assert {fault.kind for fault in fsck(bucket).faults} <= {"orphan"}
            prune(bucket, 1, bucket.now + LATER)
        assert fsck(bucket).faults == ()


def test_an_object_taken_up_again_while_it_was_pruned_is_told(
    bucket: Memory, tmp_path: Path
) -> None:
    """An old publisher's evidence is what nothing refers to; just then it is published again."""
    out = proved(tmp_path)
    write_smoke(out, [PASSED] * 5)
    evidence = read_evidence(out)
    with pytest.raises(Crashed):
        publish(evidence, Crashing(bucket, 4), no_progress)

    class Deleting(Through):
        def delete(self, key: str) -> None:
            publish(evidence, bucket, no_progress)
            super().delete(key)

    with pytest.raises(Refused, match="published while this was pruning"):
        prune(Deleting(bucket), 1, bucket.now + LATER)


def test_none_cannot_be_kept(bucket: Memory) -> None:
    with pytest.raises(BadInput, match="give 1 or more"):
        prune(bucket, 0, bucket.now)


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


# links


def test_links_of_pages() -> None:
    page = b'<a href="../../objects/a%2Bb.whl#sha256=0">a</a><a href="x/">x</a><b href="no">'
    assert list(links_of("simple/p/", page)) == ["objects/a+b.whl", "simple/p/x/index.html"]
    assert list(links_of("simple-json/p/index.json", b'{"files": [{"url": "../../o/x"}]}')) == [
        "o/x"
    ]
    assert list(links_of("x.json", b'{"variants": {}}')) == []
    assert list(links_of("x.json", b'{"cut')) == []
