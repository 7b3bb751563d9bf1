"""Files and folders of the user's: what cannot be read is BadInput, and nothing waits forever."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hostwheel.errors import BadInput


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn the disk's errors into BadInput."""
    try:
        yield
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror or error}") from None


def check_file(path: Path) -> None:
    """Refuse what is not there and what is no regular file: reading a pipe may never end."""
    with reading(path):
        if not stat.S_ISREG(path.stat().st_mode):
            raise BadInput(f"{path}: cannot be read: it is a folder, pipe or device; give a file")
        path.open("rb").close()


def read_file(path: Path) -> bytes:
    check_file(path)
    with reading(path):
        return path.read_bytes()


def output_file(path: Path) -> Path:
    """Where the bytes of this name lie, or would: a rename onto a link or a device would put a
    file in its place. BadInput for what is there and no regular file."""
    real = Path(os.path.realpath(path))
    if os.path.lexists(real) and not real.is_file():
        raise BadInput(f"{path} is there, and no regular file: give another name")
    return real


def listed(folder: Path, pattern: str) -> tuple[Path, ...]:
    """What lies in a folder under such names (`*.toml`), hidden ones apart; in order."""
    with reading(folder):
        paths = sorted(folder.iterdir())
    return tuple(p for p in paths if p.match(pattern) and not p.name.startswith("."))
