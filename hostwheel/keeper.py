"""Run a command and end all that it started: when it ends, when told to, and when we die.

A script of its own, `python keeper.py PARENT COMMAND …`. ninja gives each compiler a process
group and sccache's server runs them for others, so no signal to a group reaches them all. Here
orphans come to the keeper (a "subreaper"), and the kernel tells it when `PARENT` is gone.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
GRACE = 2.0  # seconds that ninja has for removing what is half-written


def main(parent: int, argv: Sequence[str]) -> int:
    """The exit status of `argv`, or 128 and the signal that ended it, as shells have it."""
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGTERM, stop)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it died before it could be watched
        return 128 + signal.SIGTERM
    try:
        command = subprocess.Popen(argv)  # kept: once collected, it reaps the process
        code = status_of(command.pid)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        end_all()
    return code if code >= 0 else 128 - code


def stop(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)


def status_of(command: int) -> int:
    while True:
        pid, status = os.wait()  # orphans too: else their CPU time would be nobody's
        if pid == command:
            return os.waitstatus_to_exitcode(status)


def end_all() -> None:
    """SIGTERM once to each descendant; after a while SIGKILL, until there is none."""
    asked: set[int] = set()
    deadline = time.monotonic() + GRACE
    while left := set(descendants(os.getpid())):
        late = time.monotonic() > deadline
        for pid in left if late else left - asked:
            send(pid, signal.SIGKILL if late else signal.SIGTERM)
        asked |= left
        reap()
        time.sleep(0.02)


def send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def descendants(ancestor: int) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for pid, parent in parents():
        children.setdefault(parent, []).append(pid)
    todo = [ancestor]
    while todo:
        found = children.get(todo.pop(), [])
        todo += found
        yield from found


def parents() -> Iterator[tuple[int, int]]:
    """Every process with its parent, from /proc/PID/stat: `pid (name) state parent …`."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text(errors="replace")
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
        yield int(folder.name), int(stat.rpartition(")")[2].split()[1])


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
