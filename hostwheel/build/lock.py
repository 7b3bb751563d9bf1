"""One build at a time: a lock that says who holds it, and that nobody has to clean up."""

import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hostwheel.build.folders import writing
from hostwheel.errors import MachineLacks

PATIENCE = 5.0  # seconds; keeper.py needs two for what a killed build has left running


@contextmanager
def locked(root: Path, recipe: str) -> Iterator[None]:
    """Have `root` to ourselves. The kernel lets go when we and our keepers have ended."""
    holder = root / "lock.holder"
    with writing(root):
        root.mkdir(parents=True, exist_ok=True)
    with open_lock(root) as lock:
        os.set_inheritable(lock, True)
        take(lock, holder)
        with writing(root):
            holder.write_text(f"process {os.getpid()}, building {recipe}\n")
        try:
            yield
        finally:
            holder.unlink(missing_ok=True)


@contextmanager
def open_lock(root: Path) -> Iterator[int]:
    try:
        lock = os.open(root / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    except PermissionError as error:
        raise MachineLacks(f"{error.filename} belongs to another user: remove {root}") from None
    try:
        yield lock
    finally:
        os.close(lock)


def take(lock: int, holder: Path) -> None:
    """Lock, or raise MachineLacks with the holder's name. A dead holder's remains are awaited."""
    deadline = time.monotonic() + PATIENCE
    while not try_lock(lock):
        who = holder.read_text().strip() if holder.is_file() else "another build"
        if is_alive(who) or time.monotonic() > deadline:
            raise MachineLacks(f"{holder.parent} is in use by {who}; wait for it to end")
        time.sleep(0.1)


def try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_alive(who: str) -> bool:
    process = re.match(r"process (\d+),", who)
    return process is None or Path("/proc", process[1]).exists()
