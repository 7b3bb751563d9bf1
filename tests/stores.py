"""Stores for tests: real S3 servers, and buckets that count, break, or take what they are told."""

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import boto3
import pytest

from hostwheel.publish.bucket import Bucket, Stored
from hostwheel.publish.page import HTML, INDEX_CACHE, Page
from hostwheel.publish.store import new_bucket, open_bucket
from hostwheel.publish.through import Through
from tests.plans import ROOT

KEYS = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "SECRETKEY"}
SLOWEST = 60  # seconds that a server may take to answer


def folder(path: Path) -> Bucket:
    return new_bucket(str(path))


class Memory:
    """A bucket in memory whose keys may end in a slash. `now` is when things are written."""

    url = "memory://bucket"
    slashes = True

    def __init__(self) -> None:
        self.held: dict[str, tuple[Page, datetime]] = {}
        self.now = datetime.now(UTC)
        self.lock = threading.Lock()

    def create(self, page: Page) -> bool:
        with self.lock:
            return self.held.setdefault(page.key, made := (page, self.now)) is made

    def put(self, page: Page) -> None:
        self.held[page.key] = (page, self.now)

    def read(self, key: str) -> bytes | None:
        return self.held[key][0].body if key in self.held else None

    def exists(self, key: str) -> bool:
        return key in self.held

    def list(self, prefix: str) -> Iterator[Stored]:
        for key, (page, modified) in list(self.held.items()):
            if key.startswith(prefix):
                yield Stored(key=key, size=len(page.body), modified=modified)

    def delete(self, key: str) -> None:
        self.held.pop(key, None)

    def edit(self, key: str, body: bytes) -> None:
        """By hand."""
        self.held[key] = (replace(self.held[key][0], body=body), self.now)

    def age(self, by: timedelta) -> None:
        """What is there was written that much earlier."""
        self.held = {key: (page, then - by) for key, (page, then) in self.held.items()}

    def state(self) -> dict[str, bytes]:
        return {key: page.body for key, (page, _) in self.held.items()}


class Counting(Through):
    """Counts requests by kind and the first part of the key; thread by thread."""

    def __init__(self, bucket: Bucket) -> None:
        super().__init__(bucket)
        self.counts: Counter[tuple[str, str]] = Counter()
        self.lock = threading.Lock()

    def count(self, what: str, key: str) -> None:
        with self.lock:
            self.counts[what, key.partition("/")[0]] += 1

    def create(self, page: Page) -> bool:
        self.count("create", page.key)
        return super().create(page)

    def put(self, page: Page) -> None:
        self.count("put", page.key)
        super().put(page)

    def read(self, key: str) -> bytes | None:
        self.count("read", key)
        return super().read(key)

    def exists(self, key: str) -> bool:
        self.count("exists", key)
        return super().exists(key)

    def list(self, prefix: str) -> Iterator[Stored]:
        self.count("list", prefix)
        return super().list(prefix)

    @property
    def writes(self) -> int:
        return sum(number for (what, _), number in self.counts.items() if what in ("create", "put"))


class Crashed(Exception):
    """The publisher is gone."""


class Crashing(Through):
    """Does `left` writes, and from then on nothing: as a process that was killed."""

    def __init__(self, bucket: Bucket, left: int) -> None:
        super().__init__(bucket)
        self.left = left

    def spend(self) -> None:
        if self.left == 0:
            raise Crashed
        self.left -= 1

    def create(self, page: Page) -> bool:
        self.spend()
        return super().create(page)

    def put(self, page: Page) -> None:
        self.spend()
        super().put(page)

    def delete(self, key: str) -> None:
        self.spend()
        super().delete(key)


class Before(Through):
    """Lets something happen before the first write of a key that begins with `prefix`."""

    def __init__(self, bucket: Bucket, prefix: str, happens: Callable[[], object]) -> None:
        super().__init__(bucket)
        self.prefix, self.happens = prefix, happens
        self.happened = False

    def meet(self, key: str) -> None:
        if key.startswith(self.prefix) and not self.happened:
            self.happened = True
            self.happens()

    def create(self, page: Page) -> bool:
        self.meet(page.key)
        return super().create(page)

    def put(self, page: Page) -> None:
        self.meet(page.key)
        super().put(page)


class Overwriting(Through):
    """A store that takes If-None-Match and ignores it, as rclone's does."""

    def create(self, page: Page) -> bool:
        self.put(page)
        return True


# servers


@contextmanager
def moto() -> Iterator[str]:
    """moto's S3 server in a process of its own; its address."""
    port = free_port()
    with running((sys.executable, "-m", "tests.moto_server", str(port)), port):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def running(
    argv: Sequence[str], port: int | None, env: Mapping[str, str] | None = None
) -> Iterator[None]:
    """A server until it is no longer needed; if it has a port, from when it listens on."""
    quiet = subprocess.DEVNULL
    program = shutil.which(argv[0], path=(env or os.environ)["PATH"]) or argv[0]
    argv = (program, *argv[1:])
    with subprocess.Popen(
        argv, env=env, cwd=ROOT, stdin=quiet, stdout=quiet, stderr=quiet
    ) as server:
        try:
            if port is not None:
                wait_for(port, server)
            yield
        finally:
            server.kill()


def wait_for(port: int, server: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + SLOWEST
    while time.monotonic() < end and server.poll() is None:
        with socket.socket() as asked:
            if asked.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail(f"{server.args!r} does not listen on {port}")


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def aws_environment(endpoint: str, patch: pytest.MonkeyPatch) -> None:
    """As a user of boto3 or aws sets it, and nothing of this machine's."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        patch.delenv(name)
    for name, value in {**KEYS, "AWS_ENDPOINT_URL_S3": endpoint}.items():
        patch.setenv(name, value)
    patch.setenv("AWS_CONFIG_FILE", os.devnull)
    patch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)


def s3_bucket(name: str, prefix: str = "") -> Bucket:
    """A new bucket of the server in the environment."""
    boto3.client("s3", region_name="us-east-1").create_bucket(Bucket=name)
    return open_bucket(f"s3://{name}/{prefix}")


def page(key: str, body: bytes = b"body") -> Page:
    return Page(key=key, body=body, content_type=HTML, cache_control=INDEX_CACHE)
