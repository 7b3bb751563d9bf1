"""Where an installation goes: made beside, and put there whole or not at all."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hostwheel.errors import BadInput, MachineLacks

MARKER = "hostwheel-bundle.json"  # in every installation of ours: it may give way to the next


def check_place(destination: Path) -> None:
    """Nothing that is not ours is written into, or removed."""
    if not destination.exists() and not destination.is_symlink():
        return
    ours = (destination / MARKER).is_file()
    if not ours and not (destination.is_dir() and not any(destination.iterdir())):
        raise BadInput(
            f"{destination} is there, and not from a bundle: give a new folder. Into an environment"
            " that you have: python -m pip install -r requirements.txt, in the bundle's folder"
        )


@contextmanager
def staged(destination: Path) -> Iterator[Path]:
    """A new folder beside `destination` that takes its place at the end, or is gone."""
    stage = destination.with_name(f".{destination.name}.installing")
    try:
        with writing(destination):
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(stage, ignore_errors=True)  # of a run that was killed
            stage.mkdir()
            yield stage
            put(stage, destination)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def put(stage: Path, destination: Path) -> None:
    """Rename `stage`. What was there before is kept: the user may have added to it."""
    empty = destination.is_dir() and not destination.is_symlink() and not any(destination.iterdir())
    if empty or not destination.exists():
        stage.rename(destination)
        return
    old = free(destination)
    destination.rename(old)
    try:
        stage.rename(destination)
    except BaseException:
        old.rename(destination)
        raise
    print(f"the earlier {destination} is now {old}: remove it when nothing of yours is in it")


def free(destination: Path) -> Path:
    """The first of DIR.old-1, DIR.old-2 and so on that is not there."""
    names = (f"{destination.name}.old-{number}" for number in itertools.count(1))
    return next(path for path in map(destination.with_name, names) if not os.path.lexists(path))


@contextmanager
def writing(destination: Path) -> Iterator[None]:
    """Turn the disk's errors into MachineLacks."""
    try:
        yield
    except OSError as error:
        where = error.filename or destination
        raise MachineLacks(f"{where}: {error.strerror}; nothing was installed") from None
