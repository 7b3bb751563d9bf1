"""Opening a GGUF, and saying what is wrong with one that llama.cpp does not load."""

import os
from pathlib import Path
from typing import Any

from hostwheel.errors import BadInput
from hostwheel.readout.library import package

MAGIC = b"GGUF"


def check_magic(path: Path) -> None:
    """Raises BadInput where a file cannot be read, or begins as no GGUF does."""
    try:
        with path.open("rb") as file:
            start = file.read(len(MAGIC))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}; a GGUF is expected") from None
    if start != MAGIC:
        raise BadInput(f"{path}: not a GGUF: it begins with {start!r}, not {MAGIC!r}")


def not_loaded(path: str | os.PathLike[str]) -> str:
    """What to say of a GGUF that llama.cpp refuses; its own reason only goes to a log."""
    return (
        f"{path}: llama.cpp does not load it: it is damaged, or its architecture is too new; "
        "llama-bench -m FILE says what it misses"
    )


def load_llama(path: str, **settings: Any) -> Any:
    """A `llama_cpp.Llama` of a file. Raises ValueError that says what is wrong with it."""
    try:
        check_magic(Path(path))
    except BadInput as error:
        raise ValueError(str(error)) from None
    try:
        return package("llama_cpp").Llama(path, **settings)
    except ValueError as error:
        if "from file" not in str(error):  # the model is well, the context is not
            raise
        raise ValueError(not_loaded(path)) from error
