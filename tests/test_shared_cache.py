"""A team shares compiled objects through a bucket: sccache's own variables reach the build."""

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostwheel.build.engine import cache_counts, compiler_cache, environment
from tests.answers import free_port
from tests.plans import BIN, plan_for


@pytest.fixture
def bucket() -> Iterator[str]:
    """The address of an S3 server (moto's) with a bucket "objects" in it."""
    port = free_port()
    argv = (sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port))
    server = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"127.0.0.1:{port}"
    try:
        create(f"http://{address}/objects")
        yield address
    finally:
        server.terminate()
        server.wait()


def create(url: str) -> None:
    for _ in range(300):
        try:
            request = urllib.request.Request(url, method="PUT")
            with urllib.request.urlopen(request, timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"{url} does not answer")


def compile_once(folder: Path, address: str) -> dict[str, int]:
    """Compile one file on a "machine" whose own cache is empty; sccache's counts."""
    folder.mkdir()
    (folder / "x.c").write_text("int shared(void) { return 1; }\n")
    team = {
        "HOME": str(folder),
        "SCCACHE_BUCKET": "objects",
        "SCCACHE_ENDPOINT": address,
        "SCCACHE_REGION": "us-east-1",
        "SCCACHE_S3_USE_SSL": "false",
        "AWS_ACCESS_KEY_ID": "team",
        "AWS_SECRET_ACCESS_KEY": "team",
    }
    env = {**environment(plan_for("cpu-avx2"), team), "PATH": f"{BIN}:{os.environ['PATH']}"}
    with compiler_cache(env) as ours:
        argv = ("sccache", "gcc", "-c", "x.c", "-o", "x.o")
        subprocess.run(argv, cwd=folder, env=ours, check=True)
        counts = cache_counts(ours)
    assert (folder / "x.o").is_file()
    return counts


def test_what_one_machine_compiled_another_takes_from_the_bucket(
    bucket: str, tmp_path: Path
) -> None:
    first = compile_once(tmp_path / "one", bucket)
    second = compile_once(tmp_path / "two", bucket)
    assert (first["hits"], first["misses"]) == (0, 1)
    assert (second["hits"], second["misses"]) == (1, 0)
