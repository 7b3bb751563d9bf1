"""Where an installation goes: made beside, and put there whole or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hostwheel.errors import BadInput, MachineLacks

MARKER = "hostwheel-bundle.json"  # in every installation of ours: it may be replaced by the next


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
    """Rename `stage`; what was there before goes only when the new one is in place."""
    old = destination.with_name(f".{destination.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if not destination.exists():
        stage.rename(destination)
        return
    destination.rename(old)
    try:
        stage.rename(destination)
    except BaseException:
        old.rename(destination)
        raise
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def writing(destination: Path) -> Iterator[None]:
    """Turn the disk's errors into MachineLacks."""
    try:
        yield
    except OSError as error:
        where = error.filename or destination
        raise MachineLacks(f"{where}: {error.strerror}; nothing was installed") from None
