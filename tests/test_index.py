"""The index as a function of the catalog, read with the standard library's HTML and JSON."""

import json
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

import pytest

from hostwheel.publish.catalog import Catalog, Entry, object_key
from hostwheel.publish.index import render
from hostwheel.publish.page import HTML, INDEX_CACHE, JSON, OBJECT_CACHE, Page
from tests.buckets import TAG, UPLOADED, needs

ROOT = "https://bucket.example/"
PROJECT = "llama-cpp-python"


def entry(version: str, recipe: str, **other: Any) -> Entry:
    made = Entry(
        kind="wheel",
        recipe=recipe,
        title=recipe,
        filename=f"llama_cpp_python-{version}-{TAG}.whl",
        sha256=f"{sum(map(ord, version + recipe)):064x}",
        size=123,
        uploaded=UPLOADED,
        version=version,
        platform_tag="manylinux_2_17_x86_64",
        requires_python=">=3.8,<4",
        requires=(),
        metadata="ab" * 32,
        needs=needs(),
        evidence={},
    )
    return replace(made, **other)


A10G = entry("0.3.36+cu130.sm86.avx2", "a10g")
AVX2 = entry("0.3.36+cpu.avx2", "cpu-avx2")
NEXT = entry("0.3.100+cpu.avx2", "cpu-avx2")
ARCHIVE = entry(
    "0.3.36+cpu.avx2",
    "cpu-avx2",
    kind="archive",
    filename="llama-server-0.3.36-cpu.avx2-linux-x86_64.tar.gz",
)


def copy_of(wheel: Entry, label: str, *properties: str) -> Entry:
    return replace(
        wheel,
        kind="variant",
        version="0.3.36+variants",
        filename=f"llama_cpp_python-0.3.36+variants-{TAG}-{label}.whl",
        sha256=f"{int(wheel.sha256, 16) + 1:064x}",
        variant=label,
        properties=properties,
    )


A10G_COPY = copy_of(
    A10G,
    "cu130.sm86.avx2",
    "nvidia :: cuda_version_lower_bound :: 13.0",
    "nvidia :: sm_arch :: 86_real",
    "x86_64 :: level :: v3",
)
AVX2_COPY = copy_of(AVX2, "cpu.avx2", "x86_64 :: level :: v3")
ANY_COPY = copy_of(entry("0.3.36+cpu.any", "cpu-any"), "null")


def pages(*entries: Entry) -> dict[str, Page]:
    made = render(Catalog().next(entries))
    assert len({page.key for page in made}) == len(made)
    return {page.key: page for page in made}


class Anchors(HTMLParser):
    def __init__(self, body: bytes) -> None:
        super().__init__()
        self.found: list[dict[str, str | None]] = []
        self.texts: list[str] = []
        self.inside = False
        self.feed(body.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.inside = True
            self.found.append(dict(attrs))

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.texts.append(data)


def links(page: Page) -> Iterator[tuple[str, str]]:
    """URL and sha256 (empty: a folder) of each link, as a client resolves them."""
    base = ROOT + page.key
    if page.content_type == HTML:
        for each in Anchors(page.body).found:
            url, fragment = urldefrag(urljoin(base, each["href"] or ""))
            yield url, fragment.removeprefix("sha256=")
    elif page.content_type == JSON:
        content = json.loads(page.body)
        for each in content.get("files", ()):
            yield urljoin(base, each["url"]), each["hashes"]["sha256"]
        for each in content.get("projects", ()):
            yield urljoin(base, f"{each['name']}/"), ""


def anchors(page: Page) -> dict[str, dict[str, str | None]]:
    """Attributes by file name."""
    found = Anchors(page.body)
    return dict(zip(found.texts, found.found, strict=True))


def files(page: Page) -> dict[str, dict[str, Any]]:
    return {each["filename"]: each for each in json.loads(page.body)["files"]}


def test_every_page_has_a_key_with_a_slash_and_one_for_file_servers() -> None:
    made = pages(A10G)
    assert sorted(made) == sorted(
        f"{channel}{folder}{name}"
        for channel in ("", "a10g/")
        for form, index in (("simple", "index.html"), ("simple-json", "index.json"))
        for folder in (f"{form}/", f"{form}/{PROJECT}/")
        for name in ("", index)
    )
    for key, page in made.items():
        assert page.cache_control == INDEX_CACHE == "max-age=60"
        assert page.content_type == (JSON if "simple-json/" in key else HTML)
        assert page.body == made[key.removesuffix("index.html").removesuffix("index.json")].body


@pytest.mark.parametrize(
    "entries",
    [(), (A10G,), (ARCHIVE,), (A10G, AVX2, NEXT, ARCHIVE, A10G_COPY, AVX2_COPY, ANY_COPY)],
)
def test_e1_e4_every_link_is_to_what_is_in_the_bucket(entries: tuple[Entry, ...]) -> None:
    """From both keys of a page, in the bucket's index and each channel's; never typed by hand."""
    made = pages(*entries)
    hashes = {each.key: each.sha256 for each in entries}
    hashes |= {key: key.split("/")[2] for key in made if key.startswith("objects/")}
    hashes |= {key: "" for key in made if key.endswith("/")}
    for page in made.values():
        for url, sha256 in links(page):
            assert hashes[unquote(url.removeprefix(ROOT))] == sha256, (page.key, url)


def test_pages_come_after_what_they_link_to() -> None:
    made = list(pages(A10G, AVX2, A10G_COPY))
    for at, key in enumerate(made):
        for url, _ in links(pages(A10G, AVX2, A10G_COPY)[key]):
            target = unquote(url.removeprefix(ROOT))
            assert target not in made or made.index(target) < at, (key, target)


def test_e6_each_file_has_a_sha256() -> None:
    """Hashes at some files and none at others break uv's lock."""
    made = pages(A10G, AVX2, A10G_COPY, ANY_COPY)
    listed = [sha256 for page in made.values() for url, sha256 in links(page) if "objects/" in url]
    assert len(listed) > 20
    assert all(len(sha256) == 64 for sha256 in listed)


def test_e8_e9_no_link_has_a_plus() -> None:
    """To S3 a `+` in a path is a space."""
    for page in pages(A10G, A10G_COPY).values():
        for url, _ in links(page):
            assert "+" not in url
    assert b"0.3.36%2Bcu130.sm86.avx2-py3" in pages(A10G)[f"simple/{PROJECT}/"].body


def test_e11_the_folder_has_the_normalised_name() -> None:
    body = pages(A10G)["simple/"].body
    assert f'<a href="{PROJECT}/">{PROJECT}</a>'.encode() in body
    other = replace(A10G, filename=A10G.filename.replace("llama_cpp_python", "Llama.cpp__Python"))
    assert f"simple/{PROJECT}/" in pages(other)


def test_d12_a_changed_tag_changes_the_link() -> None:
    retagged = replace(A10G, filename=A10G.filename.replace("2_17", "2_28"), sha256="f" * 64)
    (found,) = [url for url, _ in links(pages(retagged)[f"simple/{PROJECT}/"])]
    assert found == ROOT + retagged.key.replace("+", "%2B")


def test_html_says_what_pip_asks_for() -> None:
    wheel = replace(A10G, requires_python='>=3.8,<4,!="3.9"')
    page = pages(wheel)[f"simple/{PROJECT}/"]
    assert b'<meta name="pypi:repository-version" content="1.1">' in page.body
    assert b'data-requires-python="&gt;=3.8,&lt;4,!=&quot;3.9&quot;"' in page.body
    assert anchors(page) == {
        wheel.filename: {
            "href": f"../../{wheel.key.replace('+', '%2B')}#sha256={wheel.sha256}",
            "data-requires-python": wheel.requires_python,
            "data-core-metadata": f"sha256={wheel.metadata}",
        }
    }


def test_json_says_what_pip_and_uv_ask_for() -> None:
    content = json.loads(pages(NEXT, AVX2)[f"cpu-avx2/simple-json/{PROJECT}/"].body)
    assert content["meta"] == {"api-version": "1.1"}
    assert content["name"] == PROJECT
    assert content["versions"] == ["0.3.36+cpu.avx2", "0.3.100+cpu.avx2"]
    assert content["files"][1] == {
        "filename": AVX2.filename,
        "url": f"../../../{AVX2.key.replace('+', '%2B')}",
        "hashes": {"sha256": AVX2.sha256},
        "size": 123,
        "upload-time": UPLOADED,
        "yanked": False,
        "requires-python": ">=3.8,<4",
        "core-metadata": {"sha256": AVX2.metadata},
    }


@pytest.mark.parametrize("reason", ["wrong <driver> & more", ""])
def test_a_yanked_file_says_why(reason: str) -> None:
    made = pages(replace(A10G, yanked=reason), AVX2)
    html = anchors(made[f"simple/{PROJECT}/"])
    assert html[A10G.filename]["data-yanked"] == reason
    assert "data-yanked" not in html[AVX2.filename]
    assert f"</a> yanked: {escape(reason)}<br>" in made[f"simple/{PROJECT}/"].body.decode()
    found = files(made[f"simple-json/{PROJECT}/"])
    assert found[A10G.filename]["yanked"] == (reason or True)
    assert found[AVX2.filename]["yanked"] is False


def test_a_channel_has_its_own_files_only() -> None:
    made = pages(A10G, AVX2, A10G_COPY, AVX2_COPY)
    assert set(files(made[f"a10g/simple-json/{PROJECT}/"])) == {
        A10G.filename,
        A10G_COPY.filename,
        "llama_cpp_python-0.3.36+variants-variants.json",
    }


def test_archives_are_for_machines_without_python() -> None:
    made = pages(ARCHIVE)
    assert json.loads(made["simple-json/"].body)["projects"] == []
    assert json.loads(made["cpu-avx2/simple-json/"].body)["projects"] == []


def test_a_new_bucket_has_an_empty_index() -> None:
    made = pages()
    assert sorted(made) == [
        "simple-json/",
        "simple-json/index.json",
        "simple/",
        "simple/index.html",
    ]


def described(made: dict[str, Page], key: str) -> Page:
    """The variants.json that a page links to."""
    (url,) = [url for url, _ in links(made[key]) if url.endswith("-variants.json")]
    return made[unquote(url.removeprefix(ROOT))]


def test_one_variants_json_names_the_copies_of_all_recipes() -> None:
    made = pages(A10G, AVX2, NEXT, A10G_COPY, AVX2_COPY, ANY_COPY)
    page = described(made, f"simple/{PROJECT}/")
    assert json.loads(page.body)["variants"] == {
        "cpu.avx2": {"x86_64": {"level": ["v3"]}},
        "cu130.sm86.avx2": {
            "nvidia": {"cuda_version_lower_bound": ["13.0"], "sm_arch": ["86_real"]},
            "x86_64": {"level": ["v3"]},
        },
        "null": {},
    }
    channel = described(made, f"a10g/simple-json/{PROJECT}/")
    assert set(json.loads(channel.body)["variants"]) == {"cu130.sm86.avx2"}


def test_a_variants_json_is_an_object_under_its_hash() -> None:
    """So that a page which a cache kept never links to what it has no hash of."""
    before = described(pages(A10G, A10G_COPY), f"simple/{PROJECT}/")
    after = described(pages(A10G, A10G_COPY, AVX2_COPY), f"simple/{PROJECT}/")
    assert before.cache_control == after.cache_control == OBJECT_CACHE
    assert before.key != after.key
    assert before.key == object_key(before.key.split("/")[2], Path(before.key).name)


def test_the_same_catalog_gives_the_same_pages() -> None:
    entries = (A10G, AVX2, A10G_COPY, AVX2_COPY)
    assert list(pages(*entries).items()) == list(pages(*reversed(entries)).items())
