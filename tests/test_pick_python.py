"""The Python that is asked: by any path, whatever else it prints; and what is none."""

import subprocess
import sys
from pathlib import Path

import pytest

from hostwheel.__main__ import main
from hostwheel.errors import BadInput
from hostwheel.user.pick_python import find_python


@pytest.fixture
def env(tmp_path: Path) -> Path:
    argv = (sys.executable, "-m", "uv", "venv", "-q", "-p", sys.executable, tmp_path / "env")
    subprocess.run(argv, check=True)
    return tmp_path / "env"


def test_a_relative_path_is_from_here(env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(env.parent)
    program = env / "bin" / "python"
    assert find_python(Path("env")).program == program
    assert find_python(Path("env/bin/python")).program == program
    assert find_python(None, {"VIRTUAL_ENV": "env"}).program == program
    assert any(env in each.parents for each in find_python(Path("env")).path)


def test_what_else_it_prints_is_passed_over(env: Path) -> None:
    (site,) = env.glob("lib/python3*/site-packages")
    (site / "loud.pth").write_text("import sys; sys.stdout.write('[1, 2] hello')\n")
    assert find_python(env).version == sys.version.split()[0]


@pytest.mark.parametrize("script", ["exit 0", "exit 2", "echo hello", "echo 5"])
def test_what_is_no_python_is_told(
    script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    with pytest.raises(BadInput, match=f"{program} is no Python, or one that does not start"):
        find_python(program)
    assert main(["doctor", "--python", str(program)]) == 2
    assert "give --python an interpreter or environment" in capsys.readouterr().err
