"""Which build is bundled: of a folder, of a bucket, for a host."""

import hashlib
import json
import re
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from hostwheel.__main__ import main
from hostwheel.publish.catalog import Needs
from tests.bundles import (
    CUDA,
    FEATURES,
    GPU,
    OURS,
    bucket,
    build,
    bundled,
    entry,
    gguf,
    host_file,
    install,
    names,
    our_wheel,
    read,
    unpacked,
)

pytestmark = pytest.mark.usefixtures("settings")
pytest_plugins = ["tests.bundle_fixtures"]


@pytest.mark.parametrize("kind", ["folder", "file", "http"])
def test_a_build_of_a_bucket(kind: str, standin: Path, served: str, tmp_path: Path) -> None:
    place = bucket(tmp_path / "a bucket", {standin: entry(standin)})
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
    made = our_wheel(tmp_path / "cu130", version="0.3.36+cu130.sm86.avx2")
    gpu = entry(made, recipe="a10g", needs=a10g)
    place = bucket(tmp_path / "bucket", {standin: entry(standin), made: gpu})
    assert bundled(place, "-o", tmp_path / "s.zip") == 2
    assert "has a10g, cpu-avx2: name one with --recipe" in capsys.readouterr().err
    assert bundled(place, "--recipe", "t4", "-o", tmp_path / "s.zip") == 2
    assert "no build of recipe 't4'; it has a10g, cpu-avx2" in capsys.readouterr().err
    assert bundled(place, "--host", host_file(tmp_path), "-o", tmp_path / "s.zip") == 0
    assert f"wheels/{OURS}" in names(tmp_path / "s.zip")
    both = host_file(tmp_path, more=GPU.format(compute="86"))
    assert bundled(place, "--host", both, "-o", tmp_path / "s.zip") == 0
    assert f"wheels/{gpu.filename}" in names(tmp_path / "s.zip")
    old = host_file(tmp_path, features='"sse3", "ssse3"')
    assert bundled(place, "--host", old, "-o", tmp_path / "s.zip") == 1
    said = capsys.readouterr().err
    assert "no build fits my-host:\n    a10g: the CPU here lacks avx2 fma" in said


def test_a_yanked_build_is_not_taken(
    standin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = bucket(tmp_path / "bucket", {standin: entry(standin, yanked="wrong sums")})
    assert bundled(place, "--recipe", "cpu-avx2", "-o", tmp_path / "s.zip") == 2
    assert "is yanked: wrong sums" in capsys.readouterr().err


def test_a_wheel_with_other_bytes_than_the_catalog_says(
    standin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = bucket(tmp_path / "bucket", {standin: entry(standin)})
    (damaged,) = place.rglob("*.whl")
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    assert bundled(place, "-o", tmp_path / "s.zip") == 2
    assert "is not what was recorded" in capsys.readouterr().err
    assert not (tmp_path / "s.zip").exists()


@pytest.mark.parametrize(
    ("source", "code", "words"),
    [
        ("nowhere", 2, "has no build.json, as out/RECIPE has, and no catalog.json"),
        ("s3://bucket", 2, "pip cannot read from s3://"),
        ("http://127.0.0.1:1", 3, "http://127.0.0.1:1/catalog.json cannot be read"),
        ("{served}/nowhere", 2, "404 File not found"),
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
        (
            {"features": '"sse3", "ssse3"'},
            "the CPU here lacks avx2 fma",
        ),  # A19: a masking hypervisor
        ({"glibc": "2.31"}, "needs glibc 2.35, here is 2.31"),  # D4
        (
            {"more": GPU.format(compute="75")},
            "has code for sm_86, which NVIDIA A10G (sm_75)",
        ),
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


def test_d9_a_renamed_wheel_is_refused(
    standin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """uv would install it again each time, pip pass over it."""
    renamed = tmp_path / OURS.replace("cpu.avx2", "cu124")
    shutil.copy(standin, renamed)
    out = build(tmp_path / "out" / "x", renamed)
    assert bundled(out, "-o", tmp_path / "s.zip") == 2
    assert "says inside that it is llama_cpp_python 0.3.36+cpu.avx2" in capsys.readouterr().err


def test_a_cuda_build_for_a_host_without_gpu_is_told(
    standin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = build(tmp_path / "out" / "a10g", standin, cuda=CUDA)
    assert bundled(out, "--host", host_file(tmp_path), "-o", tmp_path / "s.zip") == 0
    assert "on my-host: has GPU code (sm_86), and there is no NVIDIA" in capsys.readouterr().err


def test_evidence_that_lacks_is_told_and_a_failed_one_refuses(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    smoke = json.loads((out / "smoke.json").read_text())
    each, *others = smoke["checks"]
    (out / "smoke.json").unlink()
    assert bundled(out, "-o", tmp_path / "s.zip") == 0
    assert "not proved: no smoke.json" in capsys.readouterr().out
    assert "came without smoke.json" in read(tmp_path / "s.zip", "README.txt")
    digest = hashlib.sha256((out / "dist" / OURS).read_bytes()).hexdigest()
    failures: Mapping[str, object] = {
        "audit.json": {"reports": [{"sha256": digest, "verdict": "undecided"}]},
        "smoke.json": {**smoke, "checks": [{**each, "outcome": "failed"}, *others]},
    }
    for name, said in failures.items():
        (out / name).write_text(json.dumps(said))
        assert bundled(out, "-o", tmp_path / "s.zip") == 1
        assert f"{name} says that the build did not pass" in capsys.readouterr().err
        (out / name).unlink()


def test_smoke_tests_of_which_a_part_ran_prove_nothing(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever `passed` says."""
    smoke = json.loads((out / "smoke.json").read_text())
    assert smoke["passed"]
    (out / "smoke.json").write_text(json.dumps({**smoke, "checks": smoke["checks"][1:]}))
    assert bundled(out, "-o", tmp_path / "s.zip") == 1
    assert "0 checks are told of, the suite has 1" in capsys.readouterr().err
    assert not (tmp_path / "s.zip").exists()


def test_a_catalog_that_names_a_file_elsewhere(
    standin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = bucket(tmp_path / "bucket", {standin: entry(standin, filename="../../x.whl")})
    assert bundled(place, "-o", tmp_path / "s.zip") == 2
    assert "entry '../../x.whl': filename is '../../x.whl', expected" in capsys.readouterr().err


def test_an_output_that_is_a_folder(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bundled(out, "-o", tmp_path) == 2
    assert "is a folder: give the name of a zip file" in capsys.readouterr().err


@pytest.mark.parametrize("features", ["this machine's", "sse3"])
def test_capture_pick_bundle_install_answer(
    features: str, standin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole way of a user; on a machine with less, the refusal instead."""
    assert main(["capture"]) == 0
    captured = capsys.readouterr().out
    if features == "sse3":
        captured = re.sub(r"features = \[.*?\]", 'features = ["sse3"]', captured, flags=re.DOTALL)
    (tmp_path / "host.toml").write_text(captured)
    old = our_wheel(tmp_path / "old", version="0.3.35+cpu.any")
    needs = replace(entry(old).needs, features=())
    older = entry(old, recipe="cpu-any", version="0.3.35+cpu.any", needs=needs)
    place = bucket(tmp_path / "bucket", {standin: entry(standin), old: older})
    model = gguf(tmp_path / "m.gguf")
    argv = (place, "--host", tmp_path / "host.toml", "--gguf", model, "-o", tmp_path / "s.zip")
    assert bundled(*argv) == 0
    done = install(unpacked(tmp_path / "s.zip", tmp_path / "b"), "--venv", tmp_path / "venv")
    assert done.returncode == 0, done.stderr
    best = "0.3.36+cpu.avx2" if features == "this machine's" else "0.3.35+cpu.any"
    assert f"import llama_cpp: '{best}'" in done.stdout
    assert "a completion by m.gguf: 'hello from" in done.stdout
