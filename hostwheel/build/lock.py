"""One build at a time: a lock that says who holds it, and that nobody has to clean up."""

import fcntl
import os
import pwd
import re
import stat
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
        root.mkdir(mode=0o755, parents=True, exist_ok=True)
        check_owned(root)
    with open_lock(root) as lock:
        os.set_inheritable(lock, True)
        take(lock, holder)
        with writing(holder):
            holder.write_text(f"process {os.getpid()}, building {recipe}\n")
        try:
            yield
        finally:
            holder.unlink(missing_ok=True)


def check_owned(root: Path) -> None:
    """Refuse a folder where another user can put programs: what lies in `root` is executed."""
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise MachineLacks(
            f"{root} has to be a folder, and no link: remove it (another disk can be mounted there)"
        )
    if found.st_uid != os.geteuid():
        owner = user_name(found.st_uid)
        raise MachineLacks(
            f"{root} is owned by user {owner}; only one user can build on a machine: "
            f"ask {owner} (or root) to remove it"
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise MachineLacks(
            f"{root} can be written by other users (mode {stat.S_IMODE(found.st_mode):o}), "
            f"and what is in it may be theirs: rm -r {root}, and run again"
        )


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


@contextmanager
def open_lock(root: Path) -> Iterator[int]:
    try:
        lock = os.open(root / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise MachineLacks(
            f"cannot open {root / 'lock'} ({error.strerror}): remove it and run again"
        ) from None
    try:
        yield lock
    finally:
        os.close(lock)


def take(lock: int, holder: Path) -> None:
    """Lock, or raise MachineLacks with the holder's name. A dead holder's remains are awaited."""
    deadline = time.monotonic() + PATIENCE
    while not try_lock(lock):
        who = living(holder)
        if who or time.monotonic() > deadline:
            who = who or "what an earlier build has left running"
            raise MachineLacks(f"{holder.parent} is in use by {who}; wait for it to end")
        time.sleep(0.1)


def try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def living(holder: Path) -> str | None:
    """Who holds the lock; None when the process that `holder` names has ended."""
    who = holder.read_text(errors="replace").strip() if holder.is_file() else ""
    process = re.match(r"process (\d+),", who)
    if process is None:
        return "another build"
    return who if Path("/proc", process[1]).exists() else None
