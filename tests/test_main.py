"""The command line: exit codes, and nothing written when the input is wrong."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]


def hostwheel(
    *argv: str, cwd: Path = CHECKOUT, **environment: str
) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "hostwheel", *argv)
    env = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env)


def test_help_lists_every_command() -> None:
    done = hostwheel("--help")
    assert done.returncode == 0
    for name in ("recipes", "plan", "build", "bump"):
        assert f"    {name}" in done.stdout


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


@pytest.mark.parametrize("command", ["", "recipes", "plan", "build", "bump"])
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
