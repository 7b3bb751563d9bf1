"""The command line: exit codes, and nothing written when the input is wrong."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from hostwheel.__main__ import COMMANDS

CHECKOUT = Path(__file__).parents[1]
CALLS = (
    ("--version",),
    ("--help",),
    ("plan", "cpu-avx2"),
    *((name, "--help") for name in ("smoke", "parity", "publish", "capture", "pick", "verify")),
)
# The commands that know --recipes, with what they need to look there.
READERS: Mapping[str, tuple[str, ...]] = {
    "recipes": (),
    "plan": ("a10g",),
    "build": ("a10g",),
    "image": ("a10g",),
    "pins": (),
    "audit": ("any.whl",),
    "smoke": ("a10g", "--out", "nowhere"),
    "bump": ("0.3.37",),
    "pick": ("https://nowhere.invalid", "--host", "aws-g5"),
    "bundle": ("out", "-o", "any.zip", "--host", "aws-g5"),
}
OTHERS: Mapping[str, tuple[str, ...]] = {
    "parity": ("--gguf", "m.gguf"),
    "publish": ("out",),
    "yank": ("bucket", "any.whl", "--reason", "x"),
    "unyank": ("bucket", "any.whl"),
    "prune": ("bucket", "--keep", "1"),
    "fsck": ("bucket",),
    "verify": ("any.whl",),
}


def hostwheel(
    *argv: str, cwd: Path = CHECKOUT, **environment: str
) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "hostwheel", *argv)
    env = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env)


def test_help_lists_every_command() -> None:
    done = hostwheel("--help")
    assert done.returncode == 0
    for name, (_, what, _) in COMMANDS.items():
        assert re.search(rf"^    {name}\s+{re.escape(what[:40])}", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("argv", CALLS)
def test_only_what_is_called_is_imported(argv: tuple[str, ...]) -> None:
    """lief alone takes 0.4 s."""
    code = f"""
import runpy, sys
sys.argv[1:] = {argv!r}
try:
    runpy.run_module("hostwheel", run_name="__main__")
except SystemExit as end:
    assert not end.code
print(*{{name.partition(".")[0] for name in sys.modules}}, file=sys.stderr)
"""
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True)
    imported = set(done.stderr.split())
    assert "hostwheel" in imported
    assert not imported & {"lief", "boto3", "botocore", "iced_x86", "zstandard", "numpy", "torch"}
    assert ("rich" in imported) is (argv[0] not in ("--version", "--help", "capture"))
    assert ("obstore" in imported) is (argv[0] in ("publish", "verify"))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_recipes_folder_is_taken_or_refused(command: str, tmp_path: Path) -> None:
    listed = "--recipes DIR" in hostwheel(command, "--help").stdout
    assert listed is (command in READERS)
    needed = {**READERS, **OTHERS}.get(command, ())
    done = hostwheel(command, *needed, "--recipes", str(tmp_path), cwd=tmp_path)
    assert done.returncode == 2
    wrong = "no upstream.toml in it" if listed else "unrecognized arguments: --recipes"
    assert wrong in done.stderr


def test_a_wrong_recipe_is_exit_2_and_writes_nothing(tmp_path: Path) -> None:
    done = hostwheel("build", "a10", "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert done.stderr.startswith("hostwheel: no recipe 'a10'")
    assert "did you mean 'a10g'?" in done.stderr
    assert not (tmp_path / "out").exists()


def test_no_command_is_exit_2() -> None:
    assert hostwheel().returncode == 2


def test_plan_prints_for_people_and_for_machines() -> None:
    people = hostwheel("plan", "a10g")
    machines = hostwheel("plan", "a10g", "--json")
    assert "sm_86" in people.stdout
    assert json.loads(machines.stdout)["recipe"] == "a10g"


def test_recipes_are_found_outside_a_checkout(tmp_path: Path) -> None:
    done = hostwheel("recipes", "--json", cwd=tmp_path)
    assert done.returncode == 0
    assert {row["recipe"] for row in json.loads(done.stdout)} >= {"a10g", "cpu-avx2"}


def test_a_folder_without_recipes_is_exit_2(tmp_path: Path) -> None:
    done = hostwheel("plan", "a10g", "--recipes", str(tmp_path))
    assert done.returncode == 2
    assert "no upstream.toml in it" in done.stderr


def test_a_recipes_folder_without_locks_is_exit_2(tmp_path: Path) -> None:
    recipes = shutil.copytree(CHECKOUT / "recipes", tmp_path / "recipes")
    shutil.rmtree(recipes / "locks")
    done = hostwheel("plan", "cpu-any", "--recipes", str(recipes))
    assert done.returncode == 2
    assert done.stderr.startswith(f"hostwheel: {recipes}/locks: cannot be read: ")


def test_a_folder_with_an_impossible_name_is_exit_2() -> None:
    done = hostwheel("recipes", "--recipes", "a" * 300)
    assert done.returncode == 2
    assert "cannot be read: File name too long" in done.stderr


def test_what_the_terminal_cannot_show_is_escaped(tmp_path: Path) -> None:
    recipes = shutil.copytree(CHECKOUT / "recipes", tmp_path / "recipes")
    host = recipes / "hosts" / "x86-64.toml"
    host.write_text(host.read_text().replace("Any", "Ány"), encoding="utf-8")
    for argv in (("recipes",), ("recipes", "--markdown"), ("plan", "cpu-any")):
        done = hostwheel(*argv, "--recipes", str(recipes), PYTHONIOENCODING="ascii")
        assert (done.returncode, done.stderr) == (0, "")
        assert r"\xc1ny x86-64 CPU" in done.stdout


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_80_columns_and_lists_the_exit_codes(command: str) -> None:
    said = hostwheel(*command.split(), "--help", COLUMNS="80").stdout.splitlines()
    assert max(map(len, said)) <= 80
    assert said[said.index("exit status:") + 1] == "  0  well"
    assert not command or f"  hostwheel {command}" in said[said.index("example:") + 1]


def test_nothing_is_cut_in_a_pipe() -> None:
    said = hostwheel("plan", "a10g", COLUMNS="80").stdout
    (wheel,) = (line.split() for line in said.splitlines() if line.startswith("wheel"))
    assert wheel[1].endswith("manylinux_2_35_x86_64.whl")
    rows = hostwheel("recipes", COLUMNS="80").stdout.splitlines()
    assert len(rows) == 13
    assert "…" not in "".join(rows)
