"""Publishing: two phases, and what holds whenever one is stopped, overtaken or repeated."""

import hashlib
import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin

import pytest

from hostwheel.errors import Refused
from hostwheel.publish.bucket import Bucket
from hostwheel.publish.catalog import Catalog, Entry
from hostwheel.publish.evidence import Evidence, read_evidence
from hostwheel.publish.fsck import fsck
from hostwheel.publish.generations import HINT, advance, generation_key, newest
from hostwheel.publish.objects import Upload, upload
from hostwheel.publish.page import Page
from hostwheel.publish.prune import needed_keys
from hostwheel.publish.publish import Published, add, publish
from hostwheel.publish.settle import mark_key, settle
from hostwheel.publish.through import Through
from hostwheel.trust.sums import SUMS
from tests.buckets import entry_of, metadata_of, tiny_wheel
from tests.proved import PASSED, proved, write_smoke
from tests.stores import Before, Crashed, Crashing, Memory, Overwriting, folder

LONGEST = 60  # writes of one publish; a test that crashes after each would not end otherwise


@pytest.fixture(scope="session")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return read_evidence(proved(tmp_path_factory.mktemp("proved")))


def put_up(evidence: Evidence, bucket: Bucket) -> Published:
    return publish(evidence, bucket, lambda name, done, total: None)


def published(bucket: Bucket, wheel: Path, recipe: str = "other") -> Entry:
    """A small wheel as another publisher puts it there, without evidence."""
    entry = entry_of(wheel, recipe)
    upload(bucket, Upload(key=entry.key, source=wheel, sha256=entry.sha256))
    text = metadata_of(wheel)
    upload(bucket, Upload(key=f"{entry.key}.metadata", source=text, sha256=entry.metadata))
    add(bucket, newest(bucket), [entry])
    return entry


class Links(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.page = page
        self.found: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href")
        if tag == "a" and href:
            url, fragment = urldefrag(urljoin(f"/{self.page}", href))
            self.found[unquote(url)[1:]] = fragment.removeprefix("sha256=")


def listed(bucket: Bucket) -> set[str]:
    """The file names on all HTML pages, read as an installer does; each link has to hold."""
    names = set()
    for stored in bucket.list(""):
        if "simple/" not in stored.key or stored.key.startswith("objects/"):
            continue
        links = Links(stored.key)
        links.feed((bucket.read(stored.key) or b"").decode())
        for key, sha256 in links.found.items():
            if sha256:
                names.add(key.rpartition("/")[2])
                assert hashlib.sha256(bucket.read(key) or b"").hexdigest() == sha256, key
            else:
                assert bucket.exists(f"{key}index.html"), f"{stored.key} links to {key}"
    return names


# what is published


def test_a_proved_build_is_published_and_nothing_is_wrong(
    evidence: Evidence, tmp_path: Path
) -> None:
    """E1, E2: the index follows from the catalog, and every link of it is looked at."""
    bucket = folder(tmp_path / "bucket")
    done = put_up(evidence, bucket)
    assert done.catalog.generation == 1
    assert sorted(each.kind for each in done.entries) == ["archive", "variant", "wheel"]
    looked = fsck(bucket)
    assert looked.faults == ()
    wheels = {each.filename for each in done.entries if each.kind != "archive"}
    assert wheels <= listed(bucket)


def test_the_catalog_says_what_a_machine_needs(evidence: Evidence) -> None:
    done = put_up(evidence, Memory())
    (wheel,) = [each for each in done.entries if each.kind == "wheel"]
    assert (wheel.recipe, wheel.version) == ("cpu-avx2", "0.3.36+cpu.avx2")
    assert "avx2" in wheel.needs.features
    assert (wheel.needs.cuda, wheel.needs.architecture, wheel.needs.driver) == (None, None, None)
    assert wheel.needs.glibc.startswith("2.")
    assert set(wheel.evidence) == {"build.json", "audit.json", "smoke.json", "audit.html"}
    assert done.not_run == 1


def test_the_wheel_and_the_archive_have_each_its_own_page(evidence: Evidence) -> None:
    bucket = Memory()
    for entry in put_up(evidence, bucket).entries:
        key = f"objects/{entry.evidence['audit.html'][:2]}/{entry.evidence['audit.html']}"
        page = (bucket.read(f"{key}/audit.html") or b"").decode()
        audited = entry.filename if entry.kind != "variant" else evidence.plan["wheel"]
        assert audited in page


def test_what_lies_where_is_said_by_type_and_may_be_kept_for_ever(evidence: Evidence) -> None:
    bucket = Memory()
    put_up(evidence, bucket)
    for key, (page, _) in bucket.held.items():
        fixed = key.startswith(("objects/", "catalog/")) and not key.endswith(".settled")
        assert ("immutable" in page.cache_control) == fixed or key == "probe/create-only", key
    types = {Path(key).suffix: page.content_type for key, (page, _) in bucket.held.items()}
    assert types[".whl"] == "application/octet-stream"
    assert types[".metadata"].startswith("text/plain")


def test_publishing_again_changes_nothing(evidence: Evidence) -> None:
    bucket = Memory()
    put_up(evidence, bucket)
    before = dict(bucket.held)
    again = put_up(evidence, bucket)
    assert again.changed == ()
    assert bucket.held == before


def test_newer_evidence_for_the_same_bytes_is_a_new_generation(tmp_path: Path) -> None:
    out, bucket = proved(tmp_path), Memory()
    first = put_up(read_evidence(out), bucket)
    write_smoke(out, [PASSED, PASSED])
    second = put_up(read_evidence(out), bucket)
    assert second.catalog.generation == 2
    old, new = ({each.filename: each for each in each.catalog.entries} for each in (first, second))
    for name, entry in new.items():
        assert entry.evidence["smoke.json"] != old[name].evidence["smoke.json"]
        assert entry.uploaded == old[name].uploaded
    assert {fault.kind for fault in fsck(bucket).faults} == set()  # generation 1 is still kept


# nothing is replaced


def test_d7_a_published_name_is_never_given_to_other_bytes(tmp_path: Path) -> None:
    """D7: two builds under one name, of which the last won."""
    bucket = Memory()
    first = published(bucket, tiny_wheel(tmp_path / "a", "1.0+cpu.avx2"), recipe="one")
    before = bucket.state()
    other = replace(first, sha256="0" * 64, recipe="two")
    with pytest.raises(Refused, match="is published with sha256"):
        add(bucket, newest(bucket), [other])
    assert bucket.state() == before


def test_e7_other_bytes_are_refused_before_anything_goes_up(
    evidence: Evidence, tmp_path: Path
) -> None:
    """E7: a file replaced under its name breaks everyone's locks."""
    bucket = Memory()
    taken = entry_of(tiny_wheel(tmp_path, "1.0+x"), "other", filename=str(evidence.plan["wheel"]))
    advance(bucket, Catalog(), lambda catalog: () if catalog.entries else (taken,))
    before = bucket.state()
    with pytest.raises(Refused, match="what is published is not replaced"):
        put_up(evidence, bucket)
    assert bucket.state() == before


def test_e7_other_bytes_are_refused_even_when_the_other_comes_first_at_the_last_moment(
    evidence: Evidence, tmp_path: Path
) -> None:
    bucket = Memory()
    wheel = tiny_wheel(tmp_path, "1.0+x")
    taken = entry_of(wheel, "other", filename=str(evidence.plan["wheel"]))

    def other() -> None:
        advance(bucket, newest(bucket), lambda catalog: () if catalog.entries else (taken,))

    with pytest.raises(Refused, match="what is published is not replaced"):
        put_up(evidence, Before(bucket, "catalog/", other))
    assert [each.sha256 for each in newest(bucket).entries] == [taken.sha256]


def test_an_object_that_is_there_with_other_bytes_is_refused(evidence: Evidence) -> None:
    """A truncated upload, by another tool."""
    bucket = Memory()
    put_up(evidence, bucket)
    whole = dict(bucket.held)
    (key,) = [key for key in bucket.held if key.endswith("manylinux_2_35_x86_64.whl")]
    bucket = Memory()
    bucket.put(replace(whole[key][0], body=whole[key][0].body[:1000]))
    with pytest.raises(Refused, match=r"other bytes .* 1,000 bytes"):
        put_up(evidence, bucket)
    assert bucket.read(HINT) is None


def test_a_store_that_gives_back_other_bytes_is_refused(evidence: Evidence) -> None:
    class Cutting(Through):
        def create(self, page: Page) -> bool:
            return super().create(replace(page, body=page.body[:-1]))

    with pytest.raises(Refused, match="came back"):
        put_up(evidence, Cutting(Memory()))


def test_a_file_that_changed_while_it_was_published_is_refused(tmp_path: Path) -> None:
    out = proved(tmp_path)
    evidence = read_evidence(out)
    wheel = out / "dist" / str(evidence.plan["wheel"])
    bucket = Memory()

    def edit() -> None:
        wheel.write_bytes(wheel.read_bytes() + b"x")

    with pytest.raises(Refused, match="expected"):
        put_up(evidence, Before(bucket, "objects/", edit))
    assert bucket.read(HINT) is None


@pytest.mark.parametrize("key", ["index.html", "simple/index.html", HINT, SUMS])
def test_a_page_that_someone_else_has_there_is_not_overwritten(
    evidence: Evidence, key: str
) -> None:
    bucket = Memory()
    bucket.put(Page(key=key, body=b"mine", content_type="", cache_control=""))
    before = bucket.state()
    with pytest.raises(Refused, match=rf"/{key}: is there already"):
        put_up(evidence, bucket)
    assert bucket.state() == before


def test_pages_that_another_publisher_was_first_to_write_are_hostwheels(
    evidence: Evidence, tmp_path: Path
) -> None:
    bucket = Memory()
    others: list[Entry] = []

    class Overtaken(Through):
        def read(self, key: str) -> bytes | None:
            if key == "simple/index.html" and not others:
                others.append(published(bucket, tiny_wheel(tmp_path, "1.0+cpu.avx2")))
            return super().read(key)

    assert put_up(evidence, Overtaken(bucket)).catalog.generation == 2


# stopped


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


# which generation is the newest


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


# a store without conditions


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
