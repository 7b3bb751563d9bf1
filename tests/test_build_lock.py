"""One build at a time, and a build that cannot begin leaves everything as it was."""

import dataclasses
import os
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
    environment = {**PLAN.engine.environment, "CXX": str(tmp_path / "empty" / "g++")}
    engine = dataclasses.replace(PLAN.engine, environment=environment)
    earlier = tmp_path / "out" / "dist" / "earlier.whl"
    earlier.parent.mkdir(parents=True)
    earlier.write_text("an earlier product")
    plan = dataclasses.replace(PLAN, engine=engine)
    with pytest.raises(MachineLacks, match=r"no gcc in .*empty: apt-get install g\+\+"):
        build(plan, find_data(ROOT / "recipes"), tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").rglob("*")] == ["dist", "earlier.whl"]
    with pytest.raises(MachineLacks, match="no gcc"):
        build(plan, find_data(ROOT / "recipes"), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def refusal(root: Path) -> str:
    with pytest.raises(MachineLacks) as refused, locked(root, "t4"):
        pytest.fail("it was locked")
    assert not (root / "lock.holder").is_file()
    return str(refused.value)


def test_the_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    said = refusal(tmp_path)
    assert f"{tmp_path} is owned by user " in said
    assert "only one user can build on a machine: ask " in said
    assert "(or root) to remove it" in said


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775])
def test_a_folder_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    root = tmp_path / "root"
    root.mkdir()
    root.chmod(mode)
    assert f"{root} can be written by other users (mode {mode:o})" in refusal(root)


def test_a_link_to_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert "has to be a folder, and no link" in refusal(tmp_path / "link")


def test_the_folder_that_is_made_is_ours_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with locked(tmp_path / "root", "t4"):
            assert (tmp_path / "root").stat().st_mode & 0o777 == 0o755
    finally:
        os.umask(before)


@pytest.mark.parametrize("name", ["lock", "lock.holder"])
def test_a_folder_in_the_place_of_the_lock_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    said = refusal(tmp_path)
    assert str(tmp_path / name) in said
    assert "Is a directory" in said


def test_a_holder_that_has_ended_is_not_named(
    tmp_path: Path, other: "subprocess.Popen[str]", monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(("true",)) as ended:
        ended.wait()
    (tmp_path / "lock.holder").write_text(f"process {ended.pid}, building rtx50\n")
    monkeypatch.setattr("hostwheel.build.lock.PATIENCE", 0.2)
    with pytest.raises(MachineLacks) as refused, locked(tmp_path, "t4"):
        pytest.fail("two builds at once")
    assert "rtx50" not in str(refused.value)
    assert f"process {ended.pid}" not in str(refused.value)
