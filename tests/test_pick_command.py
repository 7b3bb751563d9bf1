"""`hostwheel pick` at a bucket: read from a folder and a server, installed by pip and uv."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from hostwheel.__main__ import main
from hostwheel.errors import BadInput, MachineLacks
from hostwheel.user import pick_command
from hostwheel.user.capture_text import host_file
from hostwheel.user.pick import pick
from hostwheel.user.pick_catalog import bucket as address_of
from hostwheel.user.pick_catalog import fetch, requirement
from hostwheel.user.pick_python import find_python
from tests import users
from tests.served import Quiet, serving
from tests.users import catalog, entry, small_wheel

ZEN2 = users.host("zen2")
HOSTS = Path(__file__).parents[1] / "recipes" / "hosts"
UV = (sys.executable, "-m", "uv")


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    wheels = [small_wheel(tmp_path, f"{each}+cpu.avx2") for each in ("0.3.35", "0.3.36")]
    return users.bucket(tmp_path / "a bucket", wheels)


@pytest.fixture
def served(bucket: Path) -> Iterator[str]:
    with serving(partial(LikeS3, directory=str(bucket))) as address:
        yield address


class LikeS3(Quiet):
    def do_GET(self) -> None:
        if "+" in self.path:  # a store such as S3 reads it as a space
            self.send_error(404)
        else:
            super().do_GET()


def test_a_folder_a_file_address_and_the_catalog_itself_are_the_same(
    bucket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = bucket.as_uri()
    assert expected.endswith("a%20bucket")
    monkeypatch.chdir(bucket.parent)
    given = (str(bucket), f"{bucket}/", "a bucket", expected, f"{expected}/catalog.json")
    assert {address_of(each) for each in given} == {expected}
    assert len(fetch(expected).entries) == 2


def test_what_pip_cannot_read_is_refused() -> None:
    with pytest.raises(BadInput, match=r"cannot read from s3://; give the https:// address"):
        address_of("s3://wheels")


def test_no_catalog_is_told(served: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"/nowhere/catalog.json: 404 .*is it the address"):
        fetch(f"{served}/nowhere")
    with pytest.raises(BadInput, match=f"no bucket in {tmp_path}: no catalog.json; "):
        fetch(tmp_path.as_uri())
    for given in ("", " "):
        with pytest.raises(BadInput, match="the bucket's address is empty"):
            address_of(given)


def test_no_network_is_told() -> None:
    with pytest.raises(MachineLacks, match=r"cannot be read.*check network and proxy"):
        fetch("http://127.0.0.1:9")


def environment(folder: Path) -> Path:
    subprocess.run((*UV, "venv", "-q", "-p", sys.executable, folder), check=True)
    return folder / "bin" / "python"


def version_in(python: Path) -> str:
    code = "import llama_cpp; print(llama_cpp.__version__)"
    return subprocess.run((python, "-c", code), capture_output=True, text=True).stdout.strip()


def quiet_env() -> dict[str, str]:
    """No index is needed: what is installed needs nothing."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "UV_"))}
    return {**env, "PIP_NO_INDEX": "1", "UV_OFFLINE": "0"}


@pytest.mark.parametrize("over", ["file", "http"])
@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_pip_and_uv_install_what_was_picked(
    over: str, tool: str, bucket: Path, served: str, tmp_path: Path
) -> None:
    """D12: the address is the catalog's; E3: no index can offer anything newer"""
    address = served if over == "http" else bucket.as_uri()
    best = pick(fetch(address), ZEN2, None).best
    assert best
    wanted = requirement(address, best)
    python = environment(tmp_path / "env")
    argv = {
        "pip": (sys.executable, "-m", "pip", "--python", python, "install", "-q"),
        "uv": (*UV, "pip", "install", "-q", "-p", python),
    }[tool]
    subprocess.run((*argv, wanted), check=True, env=quiet_env())
    assert version_in(python) == "0.3.36+cpu.avx2"


@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_pip_and_uv_refuse_other_bytes(tool: str, bucket: Path, tmp_path: Path) -> None:
    address = bucket.as_uri()
    best = pick(fetch(address), ZEN2, None).best
    assert best
    path = bucket / best.key
    path.write_bytes(path.read_bytes() + b"\0")
    python = environment(tmp_path / "env")
    argv = {
        "pip": (sys.executable, "-m", "pip", "--python", python, "install", "--no-cache-dir"),
        "uv": (*UV, "pip", "install", "--no-cache", "-p", python),
    }[tool]
    done = subprocess.run(
        (*argv, requirement(address, best)), env=quiet_env(), capture_output=True, text=True
    )
    assert done.returncode != 0
    assert re.search("(?i)hash", done.stderr)
    assert version_in(python) == ""


# the command


def test_install_installs(bucket: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = environment(tmp_path / "env")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    argv = ["pick", str(bucket), "--host", "aws-g5", "--python", str(tmp_path / "env"), "--install"]
    assert main(argv) == 0
    assert version_in(python) == "0.3.36+cpu.avx2"


def test_the_line_that_is_printed_is_one_for_a_shell(
    bucket: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pick", str(bucket), "--host", "aws-g5"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("llama_cpp_python-0.3.36+cpu.avx2-py3-none-manylinux_2_35_x86_64.whl")
    (line,) = (each for each in said.splitlines() if each.startswith("pip install"))
    words = subprocess.run(
        ("sh", "-c", f"printf '%s\\n' {line.removeprefix('pip install')}"),
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    (word,) = words
    assert re.fullmatch(r"llama-cpp-python @ file:///\S+%2Bcpu\S+\.whl#sha256=[0-9a-f]{64}", word)
    assert "uv " + line in said
    assert "fits, but is older than 0.3.36" in said
    assert "the A10G" not in said


def test_json(bucket: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pick", str(bucket), "--host", str(HOSTS / "aws-g5.toml"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["picked"]["version"] == "0.3.36+cpu.avx2"
    assert said["host"]["name"] == "aws-g5"
    assert said["commands"]["uv"].startswith("uv pip install 'llama-cpp-python @ file://")
    assert said["warning"] == "no build here uses the NVIDIA A10G: this one runs on the CPU"
    assert [each["recipe"] for each in said["others"]] == ["cpu-avx2"]


def test_where_nothing_fits_the_exit_status_is_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "catalog.json").write_text(catalog(entry("h100")).json())
    assert main(["pick", str(tmp_path), "--host", "sandybridge"]) == 1
    said = capsys.readouterr().out
    assert said.startswith("None of these fits sandybridge")
    assert "lacks avx2" in said
    assert "pip install" not in said


def test_this_machine_is_captured_without_a_host(
    bucket: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pick_command, "this_machine", lambda: users.machine("zen2", users.A10G))
    assert main(["pick", str(bucket), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["host"]["gpu"] == {"name": "NVIDIA A10G", "compute": "86", "driver": "580.95.05"}


def test_a_captured_host_file_is_picked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "catalog.json").write_text(catalog().json())
    file = tmp_path / "host.toml"
    for made, best in ((users.machine("zen2", users.A10G), "a10g"), (users.machine("k10"), "cpu-")):
        file.write_text(host_file(made, "captured"))
        assert main(["pick", str(tmp_path), "--host", str(file), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["picked"]["recipe"].startswith(best)


def test_an_unknown_host_is_told(bucket: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pick", str(bucket), "--host", "aws-g55"]) == 2
    assert "no host 'aws-g55'; did you mean 'aws-g5'?" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "what"), [("h.json", "no .toml file"), (".", "a folder")])
def test_what_is_no_host_file_is_told(
    name: str,
    what: str,
    bucket: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "h.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert main(["pick", str(bucket), "--host", name]) == 2
    assert f"--host {name} is {what}: give a host file, as" in capsys.readouterr().err


def test_what_was_chosen_for_another_machine_is_installed_only_where_it_fits(
    bucket: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    python = environment(tmp_path / "env")
    old = replace(users.machine("k10"), glibc="2.12")
    monkeypatch.setattr(pick_command, "this_machine", lambda: old)
    argv = ["pick", str(bucket), "--host", "aws-g5", "--python", str(tmp_path / "env"), "--install"]
    assert main(argv) == 1
    said = capsys.readouterr().err
    assert "is for aws-g5, and does not fit this machine; nothing was installed" in said
    assert "needs glibc 2.17, here is 2.12" in said
    assert version_in(python) == ""


def test_a_catalogs_texts_are_no_orders_to_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "\x1b[2J\x1b]0;evil\x07"
    best = replace(entry("cpu-avx2"), title=f"t{evil}")
    other = replace(entry("cpu-sse42"), recipe=f"o{evil}", yanked=f"y{evil}")
    (tmp_path / "catalog.json").write_text(catalog(best, other).json())
    assert main(["pick", str(tmp_path), "--host", "aws-g5"]) == 0
    said = capsys.readouterr().out
    assert {each for each in said if not each.isprintable()} == {"\n"}
    assert r"o\x1b[2J" in said
    assert r"y\x1b[2J" in said


def test_the_python_is_the_given_the_active_or_our_own(tmp_path: Path) -> None:
    python = environment(tmp_path / "env")
    assert find_python(None, {}).program == Path(sys.executable)
    assert find_python(None, {"VIRTUAL_ENV": str(tmp_path / "env")}).program == python
    assert find_python(python, {"VIRTUAL_ENV": "/nowhere"}).program == python
    assert tmp_path / "env" in {each for path in find_python(python).path for each in path.parents}
    with pytest.raises(BadInput, match="no Python there"):
        find_python(tmp_path)
