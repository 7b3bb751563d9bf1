"""Which build is bundled: of a folder, of a bucket, for a host."""

import hashlib
import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hostwheel.publish.catalog import Catalog, Entry, Needs, object_key
from tests.bundles import CUDA, FEATURES, GPU, OURS, build, bundled, host_file, names, read

pytestmark = pytest.mark.usefixtures("settings")
pytest_plugins = ["tests.bundle_fixtures"]


def entry(made: Path, **changes: Any) -> Entry:
    data = made.read_bytes()
    needs = Needs(
        features=FEATURES, cuda=None, architecture=None, driver=None, glibc="2.28", glibcxx="3.4.22"
    )
    usual = Entry(
        kind="wheel",
        recipe="cpu-avx2",
        title="a test's host",
        filename=made.name,
        sha256=hashlib.sha256(data).hexdigest(),
        size=len(data),
        uploaded="2026-11-30T00:00:00Z",
        version="0.3.36+cpu.avx2",
        platform_tag="manylinux_2_28_x86_64",
        requires_python=">=3.8",
        requires=(),
        metadata="0" * 64,
        needs=needs,
        evidence={},
    )
    return replace(usual, **changes)


def bucket(folder: Path, made: Path, *entries: Entry) -> Path:
    for each in entries:
        place = folder / object_key(each.sha256, each.filename)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(made, place)
    (folder / "catalog.json").write_text(Catalog().next(entries).json())
    return folder


@pytest.mark.parametrize("kind", ["folder", "file", "http"])
def test_a_build_of_a_bucket(kind: str, standin: Path, served: str, tmp_path: Path) -> None:
    place = bucket(tmp_path / "a bucket", standin, entry(standin))
    urls = {"folder": str(place), "file": place.as_uri(), "http": f"{served}/a%20bucket/"}
    assert bundled(urls[kind], "-o", tmp_path / "s.zip") == 0
    with zipfile.ZipFile(tmp_path / "s.zip") as content:
        assert content.read(f"wheels/{OURS}") == standin.read_bytes()


def test_the_recipe_decides_and_else_the_host(
    standin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a10g = Needs(
        features=FEATURES,
        cuda="13.0",
        architecture="86",
        driver="580.65.06",
        glibc="2.28",
        glibcxx="3.4.22",
    )
    gpu = entry(standin, recipe="a10g", needs=a10g, filename=OURS.replace("cpu", "cu130"))
    place = bucket(tmp_path / "bucket", standin, entry(standin), gpu)
    assert bundled(place, "-o", tmp_path / "s.zip") == 2
    assert "it has several builds: a10g, cpu-avx2; name one" in capsys.readouterr().err
    assert bundled(place, "--recipe", "t4", "-o", tmp_path / "s.zip") == 2
    assert "no build of recipe 't4'; it has a10g, cpu-avx2" in capsys.readouterr().err
    assert bundled(place, "--host", host_file(tmp_path), "-o", tmp_path / "s.zip") == 0
    assert f"wheels/{OURS}" in names(tmp_path / "s.zip")
    both = host_file(tmp_path, more=GPU.format(compute="86"))
    assert bundled(place, "--host", both, "-o", tmp_path / "s.zip") == 2
    assert "several builds fit my-host: a10g, cpu-avx2" in capsys.readouterr().err


def test_a_yanked_build_is_not_taken(
    standin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = bucket(tmp_path / "bucket", standin, entry(standin, yanked="wrong sums"))
    assert bundled(place, "--recipe", "cpu-avx2", "-o", tmp_path / "s.zip") == 2
    assert "is yanked: wrong sums" in capsys.readouterr().err


def test_a_wheel_with_other_bytes_than_the_catalog_says(
    standin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = bucket(tmp_path / "bucket", standin, entry(standin))
    (damaged,) = place.rglob("*.whl")
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    assert bundled(place, "-o", tmp_path / "s.zip") == 2
    assert "is not what was recorded" in capsys.readouterr().err
    assert not (tmp_path / "s.zip").exists()


@pytest.mark.parametrize(
    ("source", "code", "words"),
    [
        ("nowhere", 2, "give a bucket's URL, or a folder with a build.json"),
        ("s3://bucket", 2, "s3:// is not read here"),
        ("http://127.0.0.1:1", 3, "could not download http://127.0.0.1:1/catalog.json"),
        ("{served}/nowhere", 2, "the server says 404"),
    ],
)
def test_no_source(
    source: str,
    code: int,
    words: str,
    served: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert bundled(source.format(served=served), "-o", tmp_path / "s.zip") == code
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ({"features": '"sse3", "ssse3"'}, "its CPU lacks avx2 fma"),  # A19: a masking hypervisor
        ({"glibc": "2.31"}, "it has glibc 2.31, 2.35 is needed"),  # D4
        ({}, "it has no GPU, and the build is for sm_86"),
        ({"more": GPU.format(compute="75")}, "its GPU is sm_75, the build is for sm_86"),
    ],
)
def test_a19_a_build_that_does_not_fit_the_host_is_refused(
    host: dict[str, str],
    words: str,
    standin: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = build(tmp_path / "out" / "a10g", standin, cuda=CUDA)
    file = host_file(tmp_path, **host)
    assert bundled(out, "--host", file, "-o", tmp_path / "s.zip") == 1
    assert words in capsys.readouterr().err


def test_evidence_that_lacks_is_told_and_a_failed_one_refuses(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (out / "smoke.json").unlink()
    assert bundled(out, "-o", tmp_path / "s.zip") == 0
    assert "not proved: no smoke.json" in capsys.readouterr().out
    assert "came without smoke.json" in read(tmp_path / "s.zip", "README.txt")
    failures = {"audit.json": {"verdict": "undecided"}, "smoke.json": {}}
    digest = hashlib.sha256((out / "dist" / OURS).read_bytes()).hexdigest()
    for name, report in failures.items():
        reports = [{"sha256": digest, **report}] if report else []
        said = {"reports": reports, "passed": bool(report), "artifacts": {OURS: digest}}
        (out / name).write_text(json.dumps(said))
        assert bundled(out, "-o", tmp_path / "s.zip") == 1
        assert f"{name} says that the build failed" in capsys.readouterr().err
        (out / name).unlink()


def test_a_catalog_that_names_a_file_elsewhere(
    standin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = bucket(tmp_path / "bucket", standin, entry(standin, filename="../../x.whl"))
    assert bundled(place, "-o", tmp_path / "s.zip") == 2
    assert "'../../x.whl' is no name of a wheel" in capsys.readouterr().err


def test_an_output_that_is_a_folder(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bundled(out, "-o", tmp_path) == 2
    assert "is a folder: give the name of a zip file" in capsys.readouterr().err
