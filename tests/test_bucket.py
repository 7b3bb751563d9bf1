"""Buckets: a folder and a real S3 server, by the same rules."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hostwheel.errors import BadInput, MachineLacks, Refused
from hostwheel.publish.bucket import PROBE, Bucket, check_create_only
from hostwheel.publish.store import new_bucket, open_bucket
from hostwheel.publish.through import Dry, LooksFirst
from tests.stores import Memory, Overwriting, aws_environment, folder, page

AWKWARD = ("a+b.whl", "objects/a b", "objects/ü/%2B", "deep/er/than/that.json")


@pytest.fixture(params=["folder", "s3", "memory"])
def bucket(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    """The memory that other tests use has to keep the same rules."""
    if request.param == "s3":
        found: Bucket = request.getfixturevalue("s3")
        return found
    return folder(tmp_path / "a bucket+") if request.param == "folder" else Memory()


# what all do


def test_a_key_is_created_once(bucket: Bucket) -> None:
    assert bucket.create(page("objects/x", b"one"))
    assert not bucket.create(page("objects/x", b"two"))
    assert bucket.read("objects/x") == b"one"


def test_a_key_is_overwritten(bucket: Bucket) -> None:
    bucket.put(page("simple/index.html", b"one"))
    bucket.put(page("simple/index.html", b"two"))
    assert bucket.read("simple/index.html") == b"two"


def test_what_is_not_there(bucket: Bucket) -> None:
    assert bucket.read("nothing") is None
    assert not bucket.exists("nothing")
    assert list(bucket.list("")) == []


def test_keys_are_what_they_are_called(bucket: Bucket) -> None:
    for key in AWKWARD:
        assert bucket.create(page(key, key.encode()))
    for key in AWKWARD:
        assert bucket.exists(key)
        assert bucket.read(key) == key.encode()
    assert {each.key for each in bucket.list("")} == set(AWKWARD)
    assert {each.key for each in bucket.list("objects/")} == {AWKWARD[1], AWKWARD[2]}


def test_a_listing_says_size_and_time(bucket: Bucket) -> None:
    bucket.put(page("x", b"12345"))
    (found,) = bucket.list("")
    assert found.size == 5
    assert abs(datetime.now(UTC) - found.modified) < timedelta(minutes=5)


def test_a_key_is_deleted(bucket: Bucket) -> None:
    bucket.put(page("x"))
    bucket.delete("x")
    assert not bucket.exists("x")


def test_of_sixteen_creators_one_is_first(bucket: Bucket) -> None:
    for number in range(5):
        ready = threading.Barrier(16)

        def create(
            who: int, key: str = f"round/{number}", ready: threading.Barrier = ready
        ) -> bool:
            ready.wait()
            return bucket.create(page(key, str(who).encode()))

        with ThreadPoolExecutor(16) as pool:
            made = list(pool.map(create, range(16)))
        assert made.count(True) == 1
        assert bucket.read(f"round/{number}") == str(made.index(True)).encode()


# folders


def test_a_folder_has_no_keys_with_a_slash(tmp_path: Path) -> None:
    bucket = folder(tmp_path)
    assert not bucket.slashes
    with pytest.raises(BadInput, match="do not end in a slash"):
        bucket.put(page("simple/"))


def test_a_folder_is_made_only_to_publish_into(tmp_path: Path) -> None:
    where = tmp_path / "a" / "b"
    with pytest.raises(BadInput, match="no such folder"):
        open_bucket(str(where))
    assert not where.exists()
    new_bucket(where.as_uri()).put(page("x/y", b"z"))
    assert (where / "x" / "y").read_bytes() == b"z"


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(MachineLacks, match="cannot be made"):
        new_bucket(str(tmp_path / "file" / "bucket"))
    with pytest.raises(MachineLacks, match=r"no use of file/x.* the disk has room") as lacks:
        folder(tmp_path).put(page("file/x"))
    assert "credentials" not in str(lacks.value)


def test_a_half_written_file_is_no_object(tmp_path: Path) -> None:
    """What a killed writer leaves: obstore writes beside and then moves."""
    bucket = folder(tmp_path)
    bucket.put(page("x", b"whole"))
    (tmp_path / "x#1").write_bytes(b"ha")
    assert [each.key for each in bucket.list("")] == ["x"]
    bucket.put(page("x", b"new"))
    assert bucket.read("x") == b"new"


# addresses


@pytest.mark.parametrize("url", ["ftp://x/y", "https://x/y", "s3:///prefix", "://"])
def test_an_address_that_is_no_bucket(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    aws_environment("http://127.0.0.1:1", monkeypatch)
    with pytest.raises(BadInput):
        open_bucket(url)


def test_a_file_url_with_two_slashes_names_a_machine() -> None:
    with pytest.raises(BadInput, match="a file URL has three slashes"):
        new_bucket("file://dist/bucket")


@pytest.mark.parametrize("where", ["", "  ", "file://", "s3:/wheels", "file:rel", "s3:wheels"])
def test_an_address_that_says_too_little_makes_no_folder(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput):
        new_bucket(where)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_a_colon_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match=r"a folder of this name is \./a10g:wheels"):
        new_bucket("a10g:wheels")
    new_bucket("./a10g:wheels")
    assert (tmp_path / "a10g:wheels").is_dir()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("s3://b/x?versionId=1", "no query"),
        ("s3://b?", "no query"),
        ("s3://b/x#y", "no fragment"),
        ("file:///srv/x?y", "no query"),
        ("s3://b//x", "two slashes in a row"),
        ("s3://b/x//", "two slashes in a row"),
    ],
)
def test_what_would_be_dropped_of_an_address_is_wrong(url: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        open_bucket(url)


@pytest.mark.parametrize(
    "url", ["gs://bucket/prefix", "az://container/prefix"], ids=["google", "azure"]
)
def test_other_stores_are_opened_by_the_same_code(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opened, no more: no server was found to test against."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    bucket = open_bucket(url)
    assert (bucket.url, bucket.slashes) == (url, False)


# create-only


def test_the_probe_takes_two_requests_and_then_one(bucket: Bucket) -> None:
    check_create_only(bucket)
    check_create_only(bucket)
    assert [each.key for each in bucket.list("")] == [PROBE]


def test_a_store_that_overwrites_is_found_by_the_probe() -> None:
    with pytest.raises(Refused, match="--sole-publisher"):
        check_create_only(Overwriting(Memory()))


def test_a_sole_publisher_looks_first() -> None:
    bucket = LooksFirst(Overwriting(Memory()))
    assert bucket.create(page("x", b"one"))
    assert not bucket.create(page("x", b"two"))
    assert bucket.read("x") == b"one"


# dry runs


def test_a_dry_run_shows_what_would_be_and_writes_nothing() -> None:
    real = Memory()
    real.put(page("kept", b"1"))
    real.put(page("gone", b"1"))
    before = real.state()
    dry = Dry(real)
    check_create_only(dry)
    assert not dry.create(page("kept", b"2"))
    assert dry.create(page("new", b"3"))
    dry.put(page("kept", b"4"))
    dry.delete("gone")
    assert {each.key: dry.read(each.key) for each in dry.list("")} == {
        PROBE: b"",
        "kept": b"4",
        "new": b"3",
    }
    assert (dry.exists("gone"), dry.exists("new")) == (False, True)
    assert real.state() == before
