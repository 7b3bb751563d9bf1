"""Publishing to real S3 servers: moto's, for races, and Ceph's, as one that people run."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import boto3
import pytest

from hostwheel.errors import Refused
from hostwheel.publish import index
from hostwheel.publish.bucket import Bucket, check_create_only
from hostwheel.publish.catalog import Catalog
from hostwheel.publish.evidence import Evidence
from hostwheel.publish.fsck import fsck
from hostwheel.publish.generations import newest
from hostwheel.publish.page import HTML, Page, Part
from hostwheel.publish.publish import add
from hostwheel.publish.repair import repair
from hostwheel.publish.settle import derived
from hostwheel.publish.store import open_bucket
from tests.published import listed_build, put_up
from tests.stores import Memory, aws_environment, s3_bucket

pytest_plugins = ["tests.publish_fixtures"]

PUBLISHERS, ROUNDS = 16, 20


@pytest.fixture(params=["moto", pytest.param("ceph", marks=pytest.mark.network)])
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name = "s3_server" if request.param == "moto" else "ceph_server"
    address: str = request.getfixturevalue(name)
    aws_environment(address, monkeypatch)
    return address


def race(buckets: Sequence[Bucket]) -> None:
    """Each of them publishes another file, all at once. Then nothing is lost or left behind."""

    def publish_one(number: int) -> None:
        add(buckets[number], newest(buckets[number]), [listed_build(number)])

    with ThreadPoolExecutor(len(buckets)) as pool:
        list(pool.map(publish_one, range(len(buckets))))
    bucket = buckets[0]
    catalog = newest(bucket)
    assert catalog.generation == len(buckets)
    assert {each.filename for each in catalog.entries} == {
        listed_build(number).filename for number in range(len(buckets))
    }
    for page in derived(bucket, catalog):
        assert bucket.read(page.key) == page.body, page.key


def one_page(catalog: Catalog) -> Iterator[Part]:
    """An index of one page: races are about the order of writes, and servers are slow."""
    names = "".join(f"<a>{each.filename}</a>" for each in catalog.entries)
    page = Page(key="simple/index.html", body=names.encode(), content_type=HTML, cache_control="")
    yield Part(name=page.key, made_of=catalog.entries, pages=lambda: (page,))


def test_sixteen_at_once_lose_nothing_in_memory() -> None:
    for _ in range(ROUNDS):
        race([Memory()] * PUBLISHERS)


def test_sixteen_at_once_lose_nothing_on_moto(
    s3_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws_environment(s3_server, monkeypatch)
    monkeypatch.setattr(index, "parts", one_page)
    s3_bucket("race")
    for number in range(ROUNDS):
        race([open_bucket(f"s3://race/{number}")] * PUBLISHERS)


@pytest.mark.network
def test_sixteen_at_once_lose_nothing_on_ceph(
    ceph_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws_environment(ceph_server, monkeypatch)
    s3_bucket("race")
    race([open_bucket("s3://race")] * PUBLISHERS)


def test_a_build_is_published_to_a_server(server: str, evidence: Evidence) -> None:
    bucket = s3_bucket("wheels", "llama")
    check_create_only(bucket)
    done = put_up(evidence, bucket)
    assert done.catalog.generation == 1
    assert fsck(bucket).faults == ()
    again = put_up(evidence, bucket)
    assert (again.changed, again.catalog) == ((), done.catalog)
    client = boto3.client("s3", region_name="us-east-1")
    for key in ("simple/llama-cpp-python/", "simple-json/llama-cpp-python/index.json"):
        head = client.head_object(Bucket="wheels", Key=f"llama/{key}")
        assert head["CacheControl"] == "max-age=60"
    bucket.delete("simple/")
    for each in done.entries:
        bucket.delete(f"{each.key}.metadata")
    assert repair(bucket, fsck(bucket)).faults == ()


def test_a_truncated_upload_is_found_on_a_server(server: str, evidence: Evidence) -> None:
    bucket = s3_bucket("truncated")
    done = put_up(evidence, bucket)
    (wheel,) = [each for each in done.entries if each.kind == "wheel"]
    client = boto3.client("s3", region_name="us-east-1")
    client.put_object(Bucket="truncated", Key=wheel.key, Body=(bucket.read(wheel.key) or b"")[:99])
    assert {(each.kind, each.key) for each in fsck(bucket).faults} == {("damaged", wheel.key)}
    with pytest.raises(Refused, match="is there with other bytes"):
        put_up(evidence, bucket)
    repair(bucket, fsck(bucket))
    put_up(evidence, bucket)
    assert fsck(bucket).faults == ()
