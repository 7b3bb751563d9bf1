"""What publish writes, and what it refuses."""

from dataclasses import replace
from pathlib import Path

import pytest

from hostwheel.errors import Refused
from hostwheel.publish.catalog import Catalog, Entry
from hostwheel.publish.evidence import Evidence, read_evidence
from hostwheel.publish.fsck import fsck
from hostwheel.publish.generations import HINT, advance, newest
from hostwheel.publish.page import Page
from hostwheel.publish.publish import add
from hostwheel.publish.through import Through
from hostwheel.trust.sums import SUMS
from tests.buckets import entry_of, tiny_wheel
from tests.proved import PASSED, proved, write_smoke
from tests.published import listed, published, put_up
from tests.stores import Before, Memory, folder

pytest_plugins = ["tests.publish_fixtures"]


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
