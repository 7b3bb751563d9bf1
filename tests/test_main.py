"""The command line: exit codes, and nothing written when the input is wrong."""

import json
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]


def hostwheel(*argv: str, cwd: Path = CHECKOUT) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "hostwheel", *argv)
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd)


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
