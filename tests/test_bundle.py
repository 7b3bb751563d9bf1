"""`hostwheel bundle`: which files, for which machine, how large. What it bundles is a stand-in."""

import hashlib
import json
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from hostwheel.user.bundle_command import read_size
from tests.bundles import OURS, TAG, bundled, gguf, host_file, left, names, read, wheel

pytestmark = pytest.mark.usefixtures("settings")
pytest_plugins = ["tests.bundle_fixtures"]


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


AT_WORK = """\
import pathlib, sys, time
from hostwheel.user.bundle_pack import beside

with beside(pathlib.Path(sys.argv[1])) as work:
    (work / "wheels").mkdir()
    print(work.name, flush=True)
    time.sleep(60)
"""


def test_what_a_killed_run_left_goes_with_the_next(out: Path, tmp_path: Path) -> None:
    """What a run that lives is working on stays."""
    place = tmp_path / "bundles"
    place.mkdir()
    argv = (sys.executable, "-c", AT_WORK, str(place / "s.zip"))
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout
        work = other.stdout.readline().strip()
        assert bundled(out, "-o", place / "s.zip") == 0
        assert left(place) == [work, "s.zip"]
        other.kill()
    assert left(place) == [work, "s.zip"]
    assert bundled(out, "-o", place / "s.zip") == 0
    assert left(place) == ["s.zip"]
