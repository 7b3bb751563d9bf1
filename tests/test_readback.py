"""Real pip and uv install what was published from a server, and do not take what differs."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import pytest

from hostwheel import web
from hostwheel.artifact.contents import sha256
from hostwheel.errors import BadInput, MachineLacks, Refused
from hostwheel.publish import readback
from hostwheel.publish.catalog import Entry
from hostwheel.publish.readback import clean, read_back
from tests.buckets import Objects, entry_of, needs, objects, serving, tiny_wheel, with_variant

VERSION = "0.3.36+cpu.avx2"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return tiny_wheel(tmp_path, VERSION)


def test_pip_and_uv_install_what_was_published(wheel: Path) -> None:
    """E8, E9, E11: a `+` in the name, both spellings, as S3's REST endpoint serves it."""
    published = with_variant(wheel, "cpu-avx2", needs())
    with serving(objects(published)) as server:
        for file, entry in published.items():
            read_back(server.url, entry, file, patience_s=0)
    projects = {path for path in server.asked if path.endswith("/llama-cpp-python/")}
    assert projects == {
        f"/{channel}{form}/llama-cpp-python/"
        for channel in ("", "cpu-avx2/")
        for form in ("simple", "simple-json")
    }
    assert all("+" not in path for path in server.asked)


def test_where_no_json_is_served_that_is_said(
    wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Website hosting and file servers have no key that ends in a slash."""
    entry = entry_of(wheel, "cpu-avx2")
    served = {
        key: each for key, each in objects({wheel: entry}).items() if "simple-json" not in key
    }
    with serving(served) as server:
        read_back(server.url, entry, wheel, patience_s=0)
    assert "only HTML is read back" in capsys.readouterr().err


def test_a_folder_is_read_back_too(wheel: Path, tmp_path: Path) -> None:
    entry = entry_of(wheel, "cpu-avx2")
    for key, (body, _) in objects({wheel: entry}).items():
        if not key.endswith("/"):
            file = tmp_path / "bucket" / key
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(body)
    read_back(f"{(tmp_path / 'bucket').as_uri()}/", entry, wheel, patience_s=0)


def test_an_archive_is_fetched_by_its_link(tmp_path: Path) -> None:
    archive = tmp_path / "llama-server-0.3.36-cpu.avx2-linux-x86_64.tar.gz"
    archive.write_bytes(b"packed")
    plain = entry_of(tiny_wheel(tmp_path, VERSION), "cpu-avx2")
    entry = replace(
        plain, kind="archive", filename=archive.name, metadata="", sha256=sha256(archive)
    )
    with serving({entry.key: (b"packed", "application/gzip")}) as server:
        read_back(server.url, entry, archive)
        assert server.asked == [f"/{entry.key}"]
    with (
        serving({entry.key: (b"packe", "application/gzip")}) as server,
        pytest.raises(
            Refused, match=f"linux-x86_64.tar.gz: sha256 .* published was {entry.sha256}"
        ),
    ):
        read_back(server.url, entry, archive)


def lost(held: Objects, entry: Entry) -> None:
    del held[entry.key]


def other_bytes(held: Objects, entry: Entry) -> None:
    """E2, E7: what lies in the bucket is not what was published."""
    held[entry.key] = (held[entry.key][0] + b"\0", "")


def other_metadata(held: Objects, entry: Entry) -> None:
    held[f"{entry.key}.metadata"] = (b"Name: other\n", "")


def no_page(held: Objects, entry: Entry) -> None:
    """E4: a channel that nobody put there."""
    del held[f"{entry.recipe}/simple/llama-cpp-python/"]


def old_page(held: Objects, entry: Entry) -> None:
    held["simple/llama-cpp-python/"] = (b"<html></html>", "text/html")


def broken_link(held: Objects, entry: Entry) -> None:
    body, content_type = held["simple/llama-cpp-python/"]
    held["simple/llama-cpp-python/"] = (body.replace(b"%2B", b"+"), content_type)


def html_for_json(held: Objects, entry: Entry) -> None:
    """The content type of a key decides how pip and uv read it."""
    body, _ = held["simple-json/llama-cpp-python/"]
    held["simple-json/llama-cpp-python/"] = (body, "text/html")


Fault = Callable[[Objects, Entry], None]


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (lost, r"\.whl: 404"),
        (other_bytes, r"\.whl: sha256"),
        (other_metadata, r"\.whl\.metadata: sha256"),
        (no_page, r"cpu-avx2/simple/llama-cpp-python/: 404"),
        (old_page, r"/simple/llama-cpp-python/ lists no llama_cpp_python-0.3.36\+cpu"),
        (broken_link, r"(?s)uv cannot install .* from http.*/simple/:.*404"),
        (html_for_json, r"pip cannot install .* from http.*/simple-json/:"),
    ],
)
def test_a_faulty_bucket_is_refused(wheel: Path, fault: Fault, says: str) -> None:
    entry = entry_of(wheel, "cpu-avx2")
    held = objects({wheel: entry})
    fault(held, entry)
    with serving(held) as server, pytest.raises(Refused, match=says):
        read_back(server.url, entry, wheel, patience_s=0)


def test_d9_d10_a_renamed_wheel_is_refused(tmp_path: Path) -> None:
    """pip and uv hold the file name against METADATA."""
    renamed = tiny_wheel(tmp_path, "0.3.36")
    renamed = renamed.rename(renamed.with_name(renamed.name.replace("0.3.36", VERSION)))
    entry = entry_of(renamed, "cpu-avx2")
    with (
        serving(objects({renamed: entry})) as server,
        pytest.raises(Refused, match="pip cannot install"),
    ):
        read_back(server.url, entry, renamed, patience_s=0)


def test_a_page_that_a_cache_still_keeps_is_waited_for(
    wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = entry_of(wheel, "cpu-avx2")
    held = objects({wheel: entry})
    fresh = held["simple/llama-cpp-python/"]
    old_page(held, entry)

    def expire(seconds: float) -> None:
        held["simple/llama-cpp-python/"] = fresh

    monkeypatch.setattr(time, "sleep", expire)
    with serving(held) as server:
        readback.wait_until_listed(f"{server.url}simple/", entry, patience_s=60)
        assert server.asked == ["/simple/llama-cpp-python/"] * 2


def test_a_server_that_does_not_answer_yet_is_waited_for(
    wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry, asked = entry_of(wheel, "cpu-avx2"), 0

    def busy_once(where: str, *, hint: str) -> bytes:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise MachineLacks(f"{where} cannot be read: the server says 503; {hint}")
        return entry.sha256.encode()

    monkeypatch.setattr(web, "read", busy_once)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    readback.wait_until_listed("http://bucket/simple/", entry, patience_s=60)
    assert asked == 2
    asked = 0
    with pytest.raises(Refused, match=r"503.* 0 s after it was published"):
        readback.wait_until_listed("http://bucket/simple/", entry, patience_s=0)


def test_without_a_slash_it_is_the_same_bucket(wheel: Path) -> None:
    entry = replace(entry_of(wheel, "cpu-avx2"), kind="variant")
    with serving(objects({wheel: entry})) as server:
        read_back(server.url.rstrip("/"), entry, wheel)


def test_another_file_than_the_published_is_bad_input(wheel: Path) -> None:
    entry = entry_of(wheel, "cpu-avx2")
    wheel.write_bytes(b"built again")
    with pytest.raises(BadInput, match="is not the llama_cpp_python"):
        read_back("http://127.0.0.1:9/", entry, wheel)


def test_no_server_is_what_the_machine_lacks(wheel: Path) -> None:
    with pytest.raises(MachineLacks, match=r"127\.0\.0\.1:9/objects/.*cannot be read"):
        read_back("http://127.0.0.1:9/", entry_of(wheel, "cpu-avx2"), wheel)


def test_without_uv_it_says_how_to_get_it(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = entry_of(wheel, "cpu-avx2")
    monkeypatch.setattr(readback, "find_spec", lambda name: None)
    with (
        serving(objects({wheel: entry})) as server,
        pytest.raises(MachineLacks, match="install uv"),
    ):
        read_back(server.url, entry, wheel)


def test_what_was_installed_is_compared(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    with ZipFile(wheel) as archive:
        archive.extractall(site)
    assert list(readback.differences(site, wheel)) == []
    (site / "llama_cpp" / "__init__.py").write_text("changed")
    (site / "llama_cpp" / "lib" / "libllama.so").unlink()
    assert [text.partition(" ")[0] for text in readback.differences(site, wheel)] == [
        "llama_cpp/__init__.py",
        "llama_cpp/lib/libllama.so",
    ]


def test_the_users_own_indexes_are_left_out() -> None:
    given = {
        "PIP_INDEX_URL": "https://elsewhere/",
        "PIP_FIND_LINKS": "/opt/wheels",
        "UV_DEFAULT_INDEX": "https://elsewhere/",
        "PYTHONPATH": "/opt",
        "PIP_CERT": "/etc/ca.pem",
        "HTTPS_PROXY": "http://proxy/",
        "PATH": "/usr/bin",
    }
    assert clean(given) == {
        "PIP_CERT": "/etc/ca.pem",
        "HTTPS_PROXY": "http://proxy/",
        "PATH": "/usr/bin",
        "PIP_CONFIG_FILE": os.devnull,
        "UV_PYTHON_DOWNLOADS": "never",
    }
