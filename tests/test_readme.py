"""The README's table and names are those of the recipes."""

import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]


def test_the_table_of_recipes_is_the_generated_one() -> None:
    argv = (sys.executable, "-m", "hostwheel", "recipes", "--markdown")
    table = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=CHECKOUT).stdout
    readme = (CHECKOUT / "README.md").read_text()
    start = readme.index("\n", readme.index("<!-- recipes:")) + 1
    assert readme[start : readme.index("<!-- /recipes -->")] == table


def test_the_names_that_it_promises_are_planned() -> None:
    argv = (sys.executable, "-m", "hostwheel", "plan", "a10g", "--json")
    said = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=CHECKOUT).stdout
    readme = (CHECKOUT / "README.md").read_text()
    names = [
        line.split('"')[3]
        for line in said.splitlines()
        if '"wheel":' in line or '"archive":' in line
    ]
    assert len(names) == 2
    assert all(f"`{name}`" in readme for name in names)


def test_ci_runs_the_test_command_of_the_readme() -> None:
    command = "uvx nox -s tests"
    assert f"\n{command} " in (CHECKOUT / "README.md").read_text()
    assert command in (CHECKOUT / ".ci" / "run").read_text()
