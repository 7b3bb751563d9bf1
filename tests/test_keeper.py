"""keeper.py by itself: the exit status goes through, and nothing that was started stays."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hostwheel.errors import MachineLacks, StepFailed
from hostwheel.keeper import parents
from hostwheel.run import KEEPER, live, start


def keep(script: str, *, parent: int | None = None) -> "subprocess.CompletedProcess[str]":
    argv = (sys.executable, str(KEEPER), str(parent or os.getpid()), "sh", "-c", script)
    return subprocess.run(argv, capture_output=True, text=True, timeout=20)


def is_running(pid: int) -> bool:
    return pid in dict(parents())


@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill $$", 143)]
)
def test_the_exit_status_is_the_commands(script: str, status: int) -> None:
    assert keep(script).returncode == status


def test_what_left_the_process_group_ends_with_the_command() -> None:
    done = keep("setsid sh -c 'echo $$; exec sleep 600' & sleep 0.3")
    assert done.returncode == 0
    assert not is_running(int(done.stdout))


def test_nothing_is_started_for_a_parent_that_is_gone() -> None:
    assert keep("echo started", parent=1).stdout == ""


def test_sigterm_ends_even_what_ignores_it(tmp_path: Path) -> None:
    script = "trap '' TERM; echo $$ >pid.new; mv pid.new pid; while :; do sleep 1; done"
    kept = start(("sh", "-c", script), env=None, cwd=tmp_path, stdout=subprocess.DEVNULL)
    while not (tmp_path / "pid").exists():
        time.sleep(0.02)
    stubborn = int((tmp_path / "pid").read_text())
    assert is_running(stubborn)
    kept.send_signal(signal.SIGTERM)
    assert kept.wait(timeout=5) == 143
    assert not is_running(stubborn)


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(MachineLacks, match="the program 'no-such-program' is not on this machine"):
        live(("no-such-program",), log=tmp_path / "log")


def test_every_line_goes_to_the_log_and_is_shown(tmp_path: Path) -> None:
    shown: list[str] = []
    argv = ("sh", "-c", "echo one; echo two >&2; exit 3")
    with pytest.raises(
        StepFailed, match=r"sh failed \(exit status 3\): sh -c 'echo one.*\n\(whole"
    ):
        live(argv, log=tmp_path / "log", show=shown.append)
    assert shown == ["one\n", "two\n"]
    assert (tmp_path / "log").read_text().endswith("\none\ntwo\n")
