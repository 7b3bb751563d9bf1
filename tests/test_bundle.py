"""`hostwheel bundle`: which build, which wheels, which bytes. What is installed is a stand-in."""

import functools
import hashlib
import http.server
import json
import shutil
import subprocess
import sys
import threading
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hostwheel.publish.catalog import Catalog, Entry, Needs, object_key
from hostwheel.user.bundle_command import read_size
from hostwheel.user.bundle_pack import FOLDER
from tests.bundles import (
    FEATURES,
    OURS,
    PYTHON,
    TAG,
    build,
    bundled,
    cuda_wheel,
    gguf,
    index,
    our_wheel,
    wheel,
)

CUDA = {"release": "13.0", "architecture": "86", "driver": "580.65.06"}
HOST = """\
title = "A test's host"
[cpu]
microarchitecture = "zen2"
features = [{features}]
[os]
glibc = "{glibc}"
glibcxx = "3.4.30"
"""
AVX2 = '"sse3", "ssse3", "sse4_1", "sse4_2", "popcnt", "avx", "avx2", "fma"'
GPU = '[gpu]\nname = "NVIDIA A10G"\ncompute = "{compute}"\ndriver = "580.65.06"\n'


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return index(tmp_path_factory.mktemp("index") / "files")


@pytest.fixture(autouse=True)
def settings(packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The only packages are ours, and those that a test puts into tmp_path/more."""
    (tmp_path / "more").mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", f"{packages} {tmp_path / 'more'}")
    for name in ("UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX", "UV_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in of our wheel."""
    return our_wheel(tmp_path_factory.mktemp("standin"))


@pytest.fixture
def out(standin: Path, tmp_path: Path) -> Path:
    return build(tmp_path / "out" / "cpu-avx2", standin)


def names(archive: Path) -> list[str]:
    with zipfile.ZipFile(archive) as content:
        return content.namelist()


def read(archive: Path, name: str) -> str:
    with zipfile.ZipFile(archive) as content:
        return content.read(name).decode()


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def host_file(folder: Path, features: str = AVX2, glibc: str = "2.35", more: str = "") -> Path:
    file = folder / "my-host.toml"
    file.write_text(HOST.format(features=features, glibc=glibc) + more)
    return file


# What is in it


def test_the_same_inputs_give_the_same_bytes(out: Path, tmp_path: Path) -> None:
    model = gguf(tmp_path / "m.gguf")
    moved = shutil.copytree(out, tmp_path / "elsewhere" / "cpu-avx2")
    for name, source in {"one": out, "other": moved}.items():
        (tmp_path / name).mkdir()
        assert bundled(source, "--gguf", model, "-o", tmp_path / name / "s.zip") == 0
    one, other = ((tmp_path / name / "s.zip").read_bytes() for name in ("one", "other"))
    assert one == other
    assert left(tmp_path / "one") == ["s.zip"]


def test_every_file_is_in_the_sums_and_the_lists_name_every_wheel(
    out: Path, tmp_path: Path
) -> None:
    assert bundled(out, "-o", tmp_path / "s.zip") == 0
    lines = read(tmp_path / "s.zip", "SHA256SUMS").splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    assert {*sums, "SHA256SUMS"} == {*names(tmp_path / "s.zip")}
    with zipfile.ZipFile(tmp_path / "s.zip") as content:
        for name, digest in sums.items():
            assert hashlib.sha256(content.read(name)).hexdigest() == digest
        assert content.getinfo("install.py").external_attr >> 16 & 0o777 == 0o755
    lock = tomllib.loads(read(tmp_path / "s.zip", "pylock.toml"))
    locked = {each["wheels"][0]["path"]: each["wheels"][0]["hashes"] for each in lock["packages"]}
    assert {name: digest for name, digest in sums.items() if name.startswith("wheels/")} == {
        name: hashes["sha256"] for name, hashes in locked.items()
    }
    for name in locked:
        assert sums[name] in read(tmp_path / "s.zip", "requirements.txt")


@pytest.mark.parametrize(("python", "old"), [("3.8", True), ("3.13", False)])
def test_wheels_are_for_the_targets_python_and_not_for_ours(
    python: str, old: bool, out: Path, tmp_path: Path
) -> None:
    assert bundled(out, "--python", python, "-o", tmp_path / "s.zip") == 0
    tag = f"cp{python.replace('.', '')}"
    assert f"wheels/standin_words-1.0-{tag}-{tag}-manylinux_2_17_x86_64.whl" in names(
        tmp_path / "s.zip"
    )
    assert ("wheels/standin_old-1.0-py3-none-any.whl" in names(tmp_path / "s.zip")) is old
    assert json.loads(read(tmp_path / "s.zip", "bundle.json"))["python"] == python


@pytest.mark.parametrize(
    ("glibc", "version", "floor"), [("2.35", "1.0", "2.28"), ("2.41", "2.0", "2.40")]
)
def test_d4_wheels_are_for_the_hosts_glibc(
    glibc: str, version: str, floor: str, out: Path, tmp_path: Path
) -> None:
    host = host_file(tmp_path, glibc=glibc)
    assert bundled(out, "--host", host, "-o", tmp_path / "s.zip") == 0
    assert any(f"standin_words-{version}-{TAG}" in name for name in names(tmp_path / "s.zip"))
    assert json.loads(read(tmp_path / "s.zip", "bundle.json"))["glibc"] == floor


@pytest.mark.parametrize("python", ["2.7", "3.7", "3", "three"])
def test_a_python_that_no_wheel_is_for(
    python: str, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bundled(out, "--python", python, "-o", tmp_path / "s.zip") == 2
    assert f"--python is {python!r}" in capsys.readouterr().err


def test_a_python_that_a_dependency_has_no_wheel_for(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bundled(out, "--python", "3.9", "-o", tmp_path / "s.zip") == 2
    said = capsys.readouterr().err
    assert "no solution in wheels for CPython 3.9 on x86_64-manylinux_2_35" in said
    assert "standin-words" in said
    assert not (tmp_path / "s.zip").exists()


def test_e3_e16_our_wheel_is_taken_whatever_an_index_has_under_its_name(
    out: Path, tmp_path: Path
) -> None:
    wheel(tmp_path / "more", OURS, {"llama_cpp/__init__.py": b"raise SystemExit\n"})
    newer = "llama_cpp_python-0.4.0-py3-none-manylinux_2_17_x86_64.whl"
    wheel(tmp_path / "more", newer, {"llama_cpp/__init__.py": b"raise SystemExit\n"})
    assert bundled(out, "-o", tmp_path / "s.zip") == 0
    ours = [name for name in names(tmp_path / "s.zip") if "llama_cpp_python" in name]
    assert ours == [f"wheels/{OURS}"]
    with zipfile.ZipFile(tmp_path / "s.zip") as content:
        assert content.read(ours[0]) == (out / "dist" / OURS).read_bytes()


def test_a_model_that_is_none(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.gguf").write_text("<html>404</html>")
    assert bundled(out, "--gguf", tmp_path / "m.gguf", "-o", tmp_path / "s.zip") == 2
    assert "no GGUF file" in capsys.readouterr().err


def test_json_says_what_the_table_says(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = gguf(tmp_path / "m.gguf")
    assert bundled(out, "--gguf", model, "-o", tmp_path / "s.zip", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["sha256"] == hashlib.sha256((tmp_path / "s.zip").read_bytes()).hexdigest()
    assert said["parts"]["models"] == {"models/m.gguf": 260}
    assert said["size"] == sum(size for part in said["parts"].values() for size in part.values())
    assert said["packages"]["standin-words"] == "1.0"


# CUDA


def test_c1_c2_c3_c21_cudas_libraries_come_along_each_once(
    packages: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = cuda_wheel(tmp_path / "cuda", tmp_path / "more")
    out = build(tmp_path / "out" / "a10g", made, cuda=CUDA)
    assert bundled(out, "-o", tmp_path / "s.zip") == 0
    inside = [
        name
        for path in names(tmp_path / "s.zip")
        if path.endswith(".whl")
        for name in wheel_names(tmp_path / "s.zip", path)
    ]
    for library in ("libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13", "libnvrtc.so.13"):
        assert sum(name.endswith(f"/{library}") for name in inside) == 1
    assert sum(name.endswith("/llama-server") for name in inside) == 1
    assert "terms of nvidia_cublas" in read(
        tmp_path / "s.zip", "licenses/nvidia-cublas/License.txt"
    )
    assert "580.65.06" in read(tmp_path / "s.zip", "README.txt")
    assert "CUDA's libraries            3" in capsys.readouterr().out


def wheel_names(archive: Path, path: str) -> list[str]:
    with zipfile.ZipFile(archive) as content, zipfile.ZipFile(content.open(path)) as inner:
        return inner.namelist()


def test_prune_leaves_out_what_nothing_loads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = cuda_wheel(tmp_path / "cuda", tmp_path / "more")
    out = build(tmp_path / "out" / "a10g", made, cuda=CUDA)
    assert bundled(out, "--prune", "-o", tmp_path / "s.zip") == 0
    kept = [name.split("-")[0] for name in names(tmp_path / "s.zip") if "/nvidia_" in name]
    assert kept == ["wheels/nvidia_cublas", "wheels/nvidia_cuda_runtime"]
    told = capsys.readouterr().out
    assert "left out: nvidia-cuda-nvrtc, 0.0 MB, which nothing loads at its start;" in told
    assert "; libcublas.so.13 may open it later" in told
    said = read(tmp_path / "s.zip", "requirements.txt")
    assert "pip install --no-deps" in said
    assert "nvidia-cuda-nvrtc==" not in said


def test_prune_keeps_what_the_users_own_packages_require(tmp_path: Path) -> None:
    made = cuda_wheel(tmp_path / "cuda", tmp_path / "more")
    out = build(tmp_path / "out" / "a10g", made, cuda=CUDA)
    wheel(tmp_path / "more", "jit-1.0-py3-none-any.whl", {"jit.py": b""}, "nvidia-cuda-nvrtc")
    (tmp_path / "requirements.txt").write_text("jit\n")
    theirs = ("--requirements", tmp_path / "requirements.txt")
    assert bundled(out, "--prune", *theirs, "-o", tmp_path / "s.zip") == 0
    assert any("/nvidia_cuda_nvrtc" in name for name in names(tmp_path / "s.zip"))


# Size and disk


def test_e14_a_bundle_that_is_too_large_is_refused(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = gguf(tmp_path / "m.gguf")
    with model.open("ab") as file:
        file.truncate(30_000_000)
    argv = (out, "--gguf", model, "-o", tmp_path / "s.zip", "--max-size")
    assert bundled(*argv, "20MB") == 1
    said = capsys.readouterr().err
    assert "--max-size allows 20.0 MB; nothing was written" in said
    assert "30.0 MB  models/m.gguf" in said
    assert left(tmp_path) == ["m.gguf", "more", "out"]
    assert bundled(*argv, "40MB") == 0


@pytest.mark.parametrize(
    ("text", "size"), [("2GB", 2 * 10**9), ("2GiB", 2 << 30), ("1.5K", 1500), ("7", 7)]
)
def test_sizes(text: str, size: int) -> None:
    assert read_size(text) == size


@pytest.mark.parametrize("text", ["2 TB", "big", "-1", "GB"])
def test_no_size(text: str, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bundled(out, "-o", tmp_path / "s.zip", f"--max-size={text}") == 2
    assert f"--max-size is {text!r}" in capsys.readouterr().err


def test_a_full_disk_leaves_nothing(out: Path, tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    earlier = "an earlier bundle"
    script = (
        'mount -t tmpfs -o size=1m none "$1" && echo "$2" > "$1/s.zip"; shift 2; "$@"; code=$?;'
        ' ls -A "$(dirname "${!#}")"; cat "${!#}"; exit $code'
    )
    argv = (sys.executable, "-m", "hostwheel", "bundle", str(out), "-o")
    shell = ("unshare", "-rm", "bash", "-c", script, "bash", str(tmp_path / "small"), earlier)
    done = subprocess.run(
        (*shell, *argv, str(tmp_path / "small" / "s.zip")), capture_output=True, text=True
    )
    assert done.returncode == 3, done.stderr
    assert "full" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.splitlines() == ["s.zip", earlier]


# Which build


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


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """tmp_path over HTTP."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    handler = functools.partial(Quiet, directory=str(tmp_path))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


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


# Into a submission


def test_d9_the_users_requirements_are_resolved_together_with_ours(
    out: Path, tmp_path: Path
) -> None:
    submission = tmp_path / "my submission"
    submission.mkdir()
    (submission / "requirements.txt").write_text("standin-tool\nstandin-words<2\n")
    argv = (out, "--into", submission, "--requirements", submission / "requirements.txt")
    assert bundled(*argv) == 0
    assert (submission / "requirements.txt").read_text() == "standin-tool\nstandin-words<2\n"
    assert left(submission) == [FOLDER, "requirements.txt"]
    text = (submission / FOLDER / "requirements.txt").read_text()
    pinned = [line.split(" ")[0] for line in text.splitlines() if "==" in line]
    assert pinned == [
        "llama-cpp-python==0.3.36+cpu.avx2",
        "standin-tool==1.0",
        "standin-words==1.0",
    ]
    (submission / FOLDER / "stale").touch()
    assert bundled(*argv) == 0
    assert not (submission / FOLDER / "stale").exists()
    assert left(tmp_path) == ["more", "my submission", "out"]


def test_requirements_that_contradict_ours(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "requirements.txt").write_text("llama-cpp-python==0.2.0\n")
    argv = ("--requirements", tmp_path / "requirements.txt", "-o", tmp_path / "s.zip")
    assert bundled(out, *argv) == 2
    said = capsys.readouterr().err
    assert "llama-cpp-python" in said
    assert "==0.2.0" in said


def test_what_is_no_bundle_is_not_replaced(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    precious = tmp_path / "submission" / FOLDER / "precious"
    precious.mkdir(parents=True)
    assert bundled(out, "--into", tmp_path / "submission") == 2
    assert "no bundle: move it away" in capsys.readouterr().err
    assert precious.is_dir()
    assert bundled(out, "--into", tmp_path / "nowhere") == 2
    assert "is no folder" in capsys.readouterr().err


# The user's index


def serve_index(folder: Path, packages: Path) -> None:
    """Files as a simple index has them."""
    for path in packages.glob("*.whl"):
        page = folder / path.name.split("-")[0].replace("_", "-")
        page.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, page / path.name)


@pytest.mark.parametrize("name", ["PIP_INDEX_URL", "UV_INDEX_URL", "PIP_CONFIG_FILE"])
def test_the_users_index_is_asked(
    name: str,
    out: Path,
    packages: Path,
    served: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    serve_index(tmp_path / "simple", packages)
    for setting in ("PIP_NO_INDEX", "PIP_FIND_LINKS"):
        monkeypatch.delenv(setting)
    config = tmp_path / "pip.conf"
    config.write_text(f"[global]\nindex-url = {served}/simple\n")
    if name != "PIP_CONFIG_FILE":
        monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv(name, str(config) if name == "PIP_CONFIG_FILE" else f"{served}/simple")
    assert bundled(out, "-o", tmp_path / "s.zip") == 0
    assert any("standin_words" in each for each in names(tmp_path / "s.zip"))


def test_an_index_that_is_not_there(
    out: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    assert bundled(out, "-o", tmp_path / "s.zip") == 3
    assert f"could not ask the index for CPython {PYTHON}" in capsys.readouterr().err
    assert not (tmp_path / "s.zip").exists()
