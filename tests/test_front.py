"""The page for people as a function of the catalog."""

import json
import re
import time
from dataclasses import replace
from html import unescape
from typing import Any

import pytest

from hostwheel.publish.catalog import Catalog
from hostwheel.publish.front import KEY, MOST_BUILDS, front
from hostwheel.publish.front_builds import newest_alike, releases
from hostwheel.publish.hrefs import links_of
from hostwheel.publish.index import render
from hostwheel.publish.label import tagged_glibc
from hostwheel.publish.page import HTML, INDEX_CACHE
from hostwheel.publish.prune import needed_keys
from tests.fronts import NASTY, archive, full, many, nasty, wheel
from tests.users import RECIPES


def pages(catalog: Catalog) -> dict[str, str]:
    return {page.key: page.body.decode() for page in front(catalog)}


def words(html: str) -> str:
    """What is left to read."""
    kept = re.sub(r"<(style|script).*?</\1>", "", html, flags=re.DOTALL)
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", kept)))


def rules(text: str) -> Any:
    """The builds that the script chooses among."""
    (found,) = re.findall(r'<script type="application/json" id="rules">(.*?)</script>', text)
    return json.loads(found)["builds"]


def test_it_is_one_page_of_the_bucket_that_no_cache_keeps_long() -> None:
    (page,) = (page for page in render(full()) if page.key == KEY)
    assert (page.content_type, page.cache_control) == (HTML, INDEX_CACHE)


def test_an_empty_bucket_has_a_page() -> None:
    assert "Nothing is published here yet." in pages(Catalog())[KEY]


def test_every_link_is_to_what_is_in_the_bucket() -> None:
    """E1: of all evidence and all files, and nothing else's."""
    catalog = many(12)
    made = {page.key: page for page in render(catalog)}
    there = {*made, "catalog.json", *needed_keys(catalog.entries)}
    found = {
        target for key, text in pages(catalog).items() for target in links_of(key, text.encode())
    }
    assert found <= there
    assert found >= {each.key for each in catalog.entries}
    shown = {
        key for key in needed_keys(catalog.entries) if not key.endswith(("audit.json", "data"))
    }
    assert found >= shown


def test_the_builds_of_a_version_stand_together_the_fastest_first() -> None:
    newest, older = releases(full())
    assert (newest.version, older.version) == ("0.3.36", "0.3.35")
    names = [each.entry.recipe for each in older.builds]
    assert sorted(names) == sorted(RECIPES)
    assert names[:2] == ["rtx50", "h100"]
    assert names.index("a10g") < names.index("a10g-cu12") < names.index("cpu-avx512")
    assert names[-2:] == ["cpu-sse42", "cpu-any"]
    assert newest.builds[-1].entry.yanked
    assert all(len(each.archives) == 1 for each in older.builds)


def test_versions_are_compared_as_versions() -> None:
    catalog = Catalog().next(wheel("a10g", each) for each in ("0.3.9", "0.3.36", "0.3.100"))
    assert [each.version for each in releases(catalog)] == ["0.3.100", "0.3.36", "0.3.9"]


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_row_says_what_the_build_needs_and_where_its_proof_is(recipe: str) -> None:
    made = wheel(recipe)
    text = pages(Catalog().next((made, archive(made))))[KEY]
    needs, said = made.needs, words(text)
    for each in (
        tagged_glibc(made.platform_tag),
        needs.cuda,
        needs.driver,
        "36.0 MB",
        made.title,
        made.sha256,
    ):
        assert each is None or each in said
    assert (f"sm_{needs.architecture}" in said) == bool(needs.architecture)
    assert " ".join(needs.features) in said
    assert re.findall(r">(audit|smoke tests|build)</a>", text) == [
        *("audit", "smoke tests", "build"),
        "audit",  # the archive's own
    ]


def test_glibc_is_what_pip_asks_for_and_of_an_archive_what_its_files_do() -> None:
    """Compiled on 2.35, which its tag says, and content with 2.34."""
    made = wheel("a10g")
    assert (made.needs.glibc, tagged_glibc(made.platform_tag)) == ("2.34", "2.35")
    text = pages(Catalog().next((made, archive(made))))[KEY]
    assert f"<td>{made.needs.driver}</td><td>2.35</td>" in text
    assert ", glibc 2.34 or newer, <a" in text
    alone = pages(Catalog().next((archive(made),)))[KEY]
    assert f"<td>{made.needs.driver}</td><td>2.34</td>" in alone


def test_a_signed_build_shows_its_statement() -> None:
    made = wheel("a10g", evidence={"statement.json": "ab" * 32})
    text = pages(Catalog().next((made,)))[KEY]
    assert f'<a href="objects/ab/{"ab" * 32}/statement.json">statement</a>' in text


def test_evidence_of_a_later_kind_is_linked_under_its_name() -> None:
    made = wheel("a10g", evidence={"statement.dsse.json": "ab" * 32})
    text = pages(Catalog().next((made,)))[KEY]
    assert f'<a href="objects/ab/{"ab" * 32}/statement.dsse.json">statement.dsse.json</a>' in text


def test_what_is_withdrawn_says_why_and_is_not_offered() -> None:
    """E10"""
    said = words(pages(Catalog().next((wheel("a10g", yanked="prints nonsense"),)))[KEY])
    assert "withdrawn: prints nonsense" in said
    assert "pip install" not in said
    again = words(pages(Catalog().next((wheel("a10g", yanked=""),)))[KEY])
    assert "a10g withdrawn AWS" in again


@pytest.mark.parametrize("yanked", [None, NASTY])
def test_what_the_catalog_says_stays_text(yanked: str | None) -> None:
    text = pages(Catalog().next((nasty(yanked=yanked),)))[KEY]
    assert text.count("<script") == 2  # the rules, and ours
    assert text.count("</script") == 2
    assert "\u202e" not in text
    assert NASTY.replace("\u202e", r"\u202e") in words(text)
    assert rules(text)[0]["title"] == NASTY


def test_many_versions_have_pages_of_their_own_and_stay_there() -> None:
    """What moved off the first page is a page of every later catalog."""
    before: set[str] = set()
    for versions in (1, 10, 11, 30):
        made = pages(many(versions))
        on_first = made[KEY].count("<tbody id=")
        assert on_first == min(versions, MOST_BUILDS // len(RECIPES)) * len(RECIPES)
        assert sum(text.count("<tbody id=") for text in made.values()) == versions * len(RECIPES)
        assert before <= made.keys()
        before = set(made)
    made = pages(many(11))
    assert 'href="builds/0.3.0.html"' in made[KEY]
    assert 'href="../objects/' in made["builds/0.3.0.html"]


def test_one_version_of_many_builds_is_shown_whole() -> None:
    made = wheel("a10g")
    named = [
        replace(made, recipe=f"r{number}", filename=made.filename.replace("-py3", f"-{number}-py3"))
        for number in range(MOST_BUILDS + 1)
    ]
    assert list(pages(Catalog().next(named))) == [KEY]


def test_the_script_chooses_among_the_newest_of_each_kind() -> None:
    catalog = many(30)
    assert {each.version.partition("+")[0] for each, _ in newest_alike(catalog)} == {"0.3.29"}
    assert len(newest_alike(catalog)) == len(RECIPES)
    assert len(rules(pages(catalog)[KEY])) == len(RECIPES)


def test_ten_thousand_builds_take_a_second() -> None:
    """Five are allowed for, on a machine that has other work; what is quadratic takes minutes."""
    catalog = many(834)
    assert len(catalog.entries) > 10_000
    begun = time.process_time()
    made = pages(catalog)
    assert time.process_time() - begun < 5
    assert len(made[KEY]) < 500_000
    assert max(map(len, made.values())) == len(made[KEY])
