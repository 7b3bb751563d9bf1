import hashlib
import os
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from hostwheel.build.download import fetch
from hostwheel.errors import BadInput, MachineLacks
from tests.served import serving

BODY = b"archive " * 1000
SHA256 = hashlib.sha256(BODY).hexdigest()
OTHER = hashlib.sha256(b"other").hexdigest()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path.startswith("/gone"):
            self.send_error(404)
            return
        if self.path.startswith("/busy"):
            self.send_error(503)
            return
        self.send_response(200)
        if not self.path.startswith("/unsized"):
            self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY[:100] if self.path.startswith("/short") else BODY)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving(Handler) as base:
        yield base


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("path", ["whole/a-1.tar.gz", "unsized/a-1.tar.gz"])
def test_a_download_lands_under_its_hash(
    url: str, path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    got = fetch(f"{url}/{path}", SHA256, tmp_path)
    assert got == tmp_path / SHA256 / "a-1.tar.gz"
    assert got.read_bytes() == BODY
    assert files(tmp_path) == [got]
    assert capsys.readouterr().err.startswith(f"downloading {url}/{path} (")


def test_once_cached_no_network_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving(Handler) as url:
        first = fetch(f"{url}/a.tar.gz", SHA256, tmp_path)
    capsys.readouterr()
    assert fetch(f"{url}/a.tar.gz", SHA256, tmp_path) == first
    assert capsys.readouterr().err == ""
    with pytest.raises(MachineLacks, match="--archive FILE"):
        fetch(f"{url}/b.tar.gz", SHA256, tmp_path)


def test_a_wrong_hash_is_refused_and_removed(url: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as refused:
        fetch(f"{url}/a.tar.gz", OTHER, tmp_path)
    for part in (OTHER, SHA256, f"{url}/a.tar.gz"):
        assert part in str(refused.value)
    assert files(tmp_path) == []


def test_a_truncated_download_is_the_networks_fault(url: str, tmp_path: Path) -> None:
    with pytest.raises(MachineLacks, match="after 100 of 8000 bytes"):
        fetch(f"{url}/short/a.tar.gz", SHA256, tmp_path)
    assert files(tmp_path) == []


@pytest.mark.parametrize("path", ["whole/a.tar.gz", "unsized/a.tar.gz"])
def test_too_big_is_refused_whether_announced_or_not(url: str, path: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="more than the 7999"):
        fetch(f"{url}/{path}", SHA256, tmp_path, limit_bytes=7999)
    assert files(tmp_path) == []
    assert fetch(f"{url}/{path}", SHA256, tmp_path, limit_bytes=8000).is_file()


def test_what_the_server_says_decides_who_has_to_act(url: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="404"):
        fetch(f"{url}/gone.tar.gz", SHA256, tmp_path)
    with pytest.raises(MachineLacks, match="503"):
        fetch(f"{url}/busy.tar.gz", SHA256, tmp_path)
    with pytest.raises(BadInput, match="not a URL"):
        fetch("a.tar.gz", SHA256, tmp_path)
    with pytest.raises(BadInput, match="no file name"):
        fetch(f"{url}/", SHA256, tmp_path)


def test_a_damaged_cached_file_is_removed(url: str, tmp_path: Path) -> None:
    got = fetch(f"{url}/a.tar.gz", SHA256, tmp_path)
    got.write_bytes(b"other")
    with pytest.raises(BadInput, match=f"removed(.|\n)*{SHA256}(.|\n)*{OTHER}"):
        fetch(f"{url}/a.tar.gz", SHA256, tmp_path)
    assert files(tmp_path) == []
    assert fetch(f"{url}/a.tar.gz", SHA256, tmp_path).read_bytes() == BODY


def test_file_urls_work(tmp_path: Path) -> None:
    source = tmp_path / "a.tar.gz"
    source.write_bytes(BODY)
    got = fetch(source.as_uri(), SHA256, tmp_path / "cache")
    assert got.read_bytes() == BODY
    with pytest.raises(MachineLacks, match=r"none\.tar\.gz"):
        fetch((tmp_path / "none.tar.gz").as_uri(), SHA256, tmp_path / "cache")


def test_a_given_archive_needs_no_network_and_is_not_touched(tmp_path: Path) -> None:
    given = tmp_path / "mine.tgz"
    given.write_bytes(BODY)
    before = given.stat()
    got = fetch("https://nowhere.invalid/a.tar.gz", SHA256, tmp_path / "c", given=given)
    assert got == tmp_path / "c" / SHA256 / "a.tar.gz"
    assert got.read_bytes() == BODY
    assert not got.samefile(given)
    assert given.stat().st_mtime_ns == before.st_mtime_ns
    again = fetch("https://nowhere.invalid/a.tar.gz", SHA256, tmp_path / "c", given=got)
    assert again == got
    assert again.stat().st_ino == got.stat().st_ino


def test_a_wrong_given_archive_is_refused_and_kept(tmp_path: Path) -> None:
    given = tmp_path / "mine.tgz"
    given.write_bytes(b"other")
    with pytest.raises(BadInput, match="not the pinned one"):
        fetch("https://nowhere.invalid/a.tar.gz", SHA256, tmp_path / "c", given=given)
    assert given.read_bytes() == b"other"
    with pytest.raises(BadInput, match="none: cannot be read"):
        fetch("https://nowhere.invalid/a.tar.gz", SHA256, tmp_path, given=tmp_path / "none")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system takes root")
    folder = tmp_path / "small"
    folder.mkdir()
    argv = ("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder))
    if subprocess.run(argv, capture_output=True).returncode != 0:
        pytest.skip("root may not mount here (a container?)")
    yield folder
    subprocess.run(("umount", str(folder)), check=True)


def test_a_full_disk_leaves_nothing_half_written(small_disk: Path, tmp_path: Path) -> None:
    source = tmp_path / "big.tar.gz"
    source.write_bytes(bytes(1 << 20))
    sha256 = hashlib.sha256(bytes(1 << 20)).hexdigest()
    with pytest.raises(MachineLacks, match="is full"):
        fetch(source.as_uri(), sha256, small_disk)
    assert files(small_disk) == []
    source.write_bytes(BODY)
    assert fetch(source.as_uri(), SHA256, small_disk).is_file()


def test_a_cache_that_cannot_be_written_is_the_machines_fault(tmp_path: Path) -> None:
    source = tmp_path / "a.tar.gz"
    source.write_bytes(BODY)
    with pytest.raises(MachineLacks, match="cannot write"):
        fetch(source.as_uri(), SHA256, source / "cache")
