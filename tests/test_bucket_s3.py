"""S3 as a bucket: what it keeps, says and needs."""

from http.server import BaseHTTPRequestHandler

import boto3
import pytest

from hostwheel.errors import BadInput, MachineLacks
from hostwheel.publish import store
from hostwheel.publish.bucket import Bucket, check_create_only
from hostwheel.publish.page import HTML, INDEX_CACHE
from hostwheel.publish.store import open_bucket
from tests.served import serving
from tests.stores import aws_environment, free_port, page


def test_s3_keeps_types_cache_headers_and_slashes(
    s3: Bucket, request: pytest.FixtureRequest
) -> None:
    for key in ("simple/", "simple", "simple/x"):
        s3.put(page(key, key.encode()))
    assert {each.key: s3.read(each.key) for each in s3.list("")} == {
        "simple": b"simple",
        "simple/": b"simple/",
        "simple/x": b"simple/x",
    }
    client = boto3.client("s3", region_name="us-east-1")
    name = s3.url.split("/")[2]
    for key in ("simple/", "simple/x"):
        found = client.head_object(Bucket=name, Key=f"some/prefix/{key}")
        assert (found["ContentType"], found["CacheControl"]) == (HTML, INDEX_CACHE)
    s3.delete("simple/")
    assert s3.read("simple/") is None
    assert s3.read("simple") == b"simple"


def test_s3_without_the_bucket(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    aws_environment(s3_server, monkeypatch)
    bucket = open_bucket("s3://no-such-bucket")
    with pytest.raises(BadInput, match="make the bucket first"):
        check_create_only(bucket)


def test_s3_where_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    aws_environment(f"http://127.0.0.1:{free_port()}", monkeypatch)
    monkeypatch.setitem(store.RETRIES, "max_retries", 1)
    bucket = open_bucket("s3://bucket")
    with pytest.raises(MachineLacks, match="see that the address and the credentials are right"):
        bucket.read("x")


def test_s3_by_the_option(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    aws_environment("http://127.0.0.1:1", monkeypatch)
    boto3.client("s3", endpoint_url=s3_server, region_name="us-east-1").create_bucket(
        Bucket="option"
    )
    bucket = open_bucket("s3://option/", s3_server)
    bucket.put(page("x/"))
    assert bucket.create(page("y"))
    assert {each.key for each in bucket.list("")} == {"x/", "y"}


def test_s3_without_credentials(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    aws_environment(s3_server, monkeypatch)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(MachineLacks, match="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"):
        open_bucket("s3://bucket")


class Flaky(BaseHTTPRequestHandler):
    """Takes a PUT at the third time."""

    protocol_version = "HTTP/1.1"
    asked = 0

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        type(self).asked += 1
        self.send_response(200 if self.asked % 3 == 0 else 503)
        self.send_header("ETag", '"x"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


class Denying(Flaky):
    """Answers as S3 does to keys that may not."""

    def do_GET(self) -> None:
        body = b"<?xml version='1.0'?>\n<Error><Code>AccessDenied</Code><HostId>x</HostId></Error>"
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.mark.parametrize("key", ["simple/", "simple/index.html"])
def test_of_what_s3_answers_only_the_code_is_told(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(Denying) as address:
        aws_environment(address, monkeypatch)
        with pytest.raises(MachineLacks, match=r": AccessDenied; see that the address") as lacks:
            open_bucket("s3://bucket").read(key)
    assert "<" not in str(lacks.value)


@pytest.mark.parametrize("key", ["simple/", "simple/index.html"])
def test_what_a_server_was_too_busy_for_is_sent_again(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(Flaky) as address:
        aws_environment(address, monkeypatch)
        Flaky.asked = 0
        open_bucket("s3://bucket").put(page(key))
        assert Flaky.asked == 3
