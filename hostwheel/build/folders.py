"""Folders made whole or not at all; a stamp says from what, and which files belong to one."""

import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from hostwheel.errors import MachineLacks


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn the disk's errors into MachineLacks."""
    try:
        yield
    except BrokenPipeError:  # of our own output: no disk's
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise MachineLacks(f"the disk of {folder} is full; make room and run again") from None
        raise MachineLacks(f"cannot write {error.filename or folder}: {error.strerror}") from None


def sibling(folder: Path, what: str) -> Path:
    """A free place beside `folder`; what a killed run has left there is removed."""
    path = folder.with_name(f".{folder.name}.{what}")
    with writing(path):
        shutil.rmtree(path, ignore_errors=not path.exists())
    return path


def put(fresh: Path, folder: Path) -> None:
    """Move `fresh` to where `folder` is; there is never half of either."""
    old = sibling(folder, "old")
    if folder.exists():
        folder.replace(old)
    fresh.replace(folder)
    shutil.rmtree(old, ignore_errors=True)


def listing(folder: Path) -> dict[str, int]:
    """Every file and link below `folder`, by relative name, with its size in bytes."""
    return {
        str(path.relative_to(folder)): path.lstat().st_size
        for parent, folders, files in os.walk(folder)
        for path in (Path(parent, name) for name in [*folders, *files])
        if path.is_symlink() or not path.is_dir()
    }


def write_stamp(stamp: Path, inputs: Mapping[str, object], folder: Path) -> None:
    """Say in `stamp` that `folder` is complete. To be called last."""
    stamped = {"inputs": inputs, "files": dict(sorted(listing(folder).items()))}
    stamp.write_text(json.dumps(stamped, indent=1) + "\n", encoding="utf-8")


def is_intact(stamp: Path, inputs: Mapping[str, object], folder: Path) -> bool:
    """Whether `folder` was made from `inputs` and has every stamped file at its stamped size.

    Files that came later (what a build leaves behind) do not count. A stamp of no files is none.
    """
    try:
        stamped = json.loads(stamp.read_text(encoding="utf-8"))
        then, files = stamped["inputs"], dict(stamped["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return bool(files and then == inputs and files.items() <= listing(folder).items())
