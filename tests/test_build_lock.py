"""One build at a time, and a build that cannot begin leaves everything as it was."""

import dataclasses
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostwheel.build.build import build
from hostwheel.build.lock import locked
from hostwheel.errors import MachineLacks
from hostwheel.plan.data import find_data
from tests.plans import ROOT, plan_for

PLAN = plan_for("cpu-avx2")
HOLD = """
import sys
from pathlib import Path
from hostwheel.build.lock import locked
with locked(Path(sys.argv[1]), "a10g"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process that builds a10g below `tmp_path`, until its stdin is closed."""
    argv = (sys.executable, "-c", HOLD, str(tmp_path))
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_build_is_refused_with_the_name_of_the_first(
    tmp_path: Path, other: "subprocess.Popen[str]"
) -> None:
    wanted = f"{tmp_path} is in use by process {other.pid}, building a10g; wait for it to end"
    with pytest.raises(MachineLacks, match=wanted), locked(tmp_path, "t4"):
        pytest.fail("two builds at once")


def test_a_finished_build_lets_go(tmp_path: Path, other: "subprocess.Popen[str]") -> None:
    other.communicate()
    with locked(tmp_path, "t4"):
        assert "building t4" in (tmp_path / "lock.holder").read_text()


def test_a_killed_build_leaves_no_lock_behind(
    tmp_path: Path, other: "subprocess.Popen[str]"
) -> None:
    other.send_signal(signal.SIGKILL)
    other.wait()
    with locked(tmp_path, "t4"):
        assert "building t4" in (tmp_path / "lock.holder").read_text()


def test_a_failed_build_lets_go(tmp_path: Path) -> None:
    with pytest.raises(MachineLacks, match="no memory"), locked(tmp_path, "t4"):
        raise MachineLacks("no memory")
    with locked(tmp_path, "t4"):
        pass


def test_the_folder_is_made(tmp_path: Path) -> None:
    with locked(tmp_path / "new" / "root", "t4"):
        assert (tmp_path / "new" / "root").is_dir()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineLacks, match="cannot write "), locked(tmp_path / "file", "t4"):
        pytest.fail("it was locked")


def test_without_a_compiler_nothing_is_touched(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    environment = {**PLAN.engine.environment, "PATH": str(tmp_path / "empty")}
    engine = dataclasses.replace(PLAN.engine, environment=environment)
    earlier = tmp_path / "out" / "dist" / "earlier.whl"
    earlier.parent.mkdir(parents=True)
    earlier.write_text("an earlier product")
    plan = dataclasses.replace(PLAN, engine=engine)
    with pytest.raises(MachineLacks, match=r"no gcc in .*empty: apt-get install g\+\+"):
        build(plan, find_data(ROOT / "recipes"), tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").rglob("*")] == ["dist", "earlier.whl"]
