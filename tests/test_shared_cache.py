"""A team shares compiled objects through a bucket: sccache's own variables reach the build."""

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from hostwheel.build.engine import cache_counts, compiler_cache, environment
from hostwheel.container.team_cache import AS_A_BUCKET, shared, team_cache
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


def team_at(address: str) -> dict[str, str]:
    return {
        "SCCACHE_BUCKET": "objects",
        "SCCACHE_ENDPOINT": address,
        "SCCACHE_REGION": "us-east-1",
        "SCCACHE_S3_USE_SSL": "false",
        "SCCACHE_S3_KEY_PREFIX": "hostwheel",
        "AWS_ACCESS_KEY_ID": "team",
        "AWS_SECRET_ACCESS_KEY": "team",
    }


def compile_once(folder: Path, settings: Mapping[str, str]) -> dict[str, int]:
    """Compile one file on a "machine" whose own cache is empty; sccache's counts."""
    folder.mkdir()
    (folder / "x.c").write_text("int shared(void) { return 1; }\n")
    ours = {"HOME": str(folder), **settings}
    env = {**environment(plan_for("cpu-avx2"), ours), "PATH": f"{BIN}:{os.environ['PATH']}"}
    with compiler_cache(env) as ours:
        argv = ("sccache", "gcc", "-c", "x.c", "-o", "x.o")
        subprocess.run(argv, cwd=folder, env=ours, check=True)
        counts = cache_counts(ours)
    assert (folder / "x.o").is_file()
    return counts


def test_what_one_machine_compiled_another_takes_from_the_bucket(
    bucket: str, tmp_path: Path
) -> None:
    first = compile_once(tmp_path / "one", team_at(bucket))
    second = compile_once(tmp_path / "two", team_at(bucket))
    assert (first["hits"], first["misses"]) == (0, 1)
    assert (second["hits"], second["misses"]) == (1, 0)


def test_a_container_without_network_takes_and_gives_through_a_folder(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in team_at(bucket).items():
        monkeypatch.setenv(name, value)
    folder, other = tmp_path / "cache", tmp_path / "other"
    with shared(team_cache(os.environ), folder):
        first = compile_once(tmp_path / "one", {"SCCACHE_DIR": str(folder), **AS_A_BUCKET})
    with shared(team_cache(os.environ), other):
        second = compile_once(tmp_path / "two", {"SCCACHE_DIR": str(other), **AS_A_BUCKET})
    third = compile_once(tmp_path / "three", team_at(bucket))
    assert [each["hits"] for each in (first, second, third)] == [0, 1, 1]


def test_a_bucket_that_is_only_read_gets_nothing(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (team_at(bucket) | {"SCCACHE_S3_RW_MODE": "READ_ONLY"}).items():
        monkeypatch.setenv(name, value)
    with shared(team_cache(os.environ), tmp_path / "cache"):
        compile_once(tmp_path / "one", {"SCCACHE_DIR": str(tmp_path / "cache"), **AS_A_BUCKET})
    assert compile_once(tmp_path / "two", team_at(bucket))["hits"] == 0


def test_a_bucket_that_cannot_be_reached_costs_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in team_at(f"127.0.0.1:{free_port()}").items():
        monkeypatch.setenv(name, value)
    with shared(team_cache(os.environ), tmp_path / "cache"):
        compile_once(tmp_path / "one", {"SCCACHE_DIR": str(tmp_path / "cache")})
    assert "the team's compiler cache is not used" in capsys.readouterr().err
