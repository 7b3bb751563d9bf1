"""Where recipes, hosts and patches are: a checkout, a folder given by the user, or the package."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hostwheel.errors import BadInput
from hostwheel.plan.files import listed, read_file

PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True, kw_only=True, slots=True)
class Data:
    """The folders that a plan is made from."""

    recipes: Path
    patches: Path

    @property
    def locks(self) -> Path:
        return self.recipes / "locks"


def find_data(given: Path | None = None) -> Data:
    """`given` (a `recipes` folder), else the checkout around the working directory, else ours.

    Patches lie beside the recipes; a given folder without them uses ours.
    """
    try:
        return found_data(given)
    except OSError as error:
        where = error.filename or "the working directory"
        hint = "run hostwheel where it may read, or give another --recipes DIR"
        raise BadInput(f"{where}: cannot be read: {error.strerror}; {hint}") from None


def found_data(given: Path | None) -> Data:
    if given is not None:
        if not (given / "upstream.toml").is_file():
            raise BadInput(f"{given}: no upstream.toml in it, so it is not a recipes folder")
        beside = given.parent / "patches"
        return Data(recipes=given, patches=beside if beside.is_dir() else found_data(None).patches)
    for root in (*(Path.cwd() / "x").parents, PACKAGE.parent, PACKAGE / "_data"):
        if is_data_root(root):
            return Data(recipes=root / "recipes", patches=root / "patches")
    raise BadInput("no recipes found: run hostwheel in a checkout, or give --recipes DIR")


def is_data_root(root: Path) -> bool:
    return (root / "recipes" / "upstream.toml").is_file() and (root / "patches").is_dir()


def file_hashes(folder: Path, pattern: str) -> Mapping[str, str]:
    """sha256 of each file of a folder, by name."""
    files = listed(folder, pattern)
    return {file.name: hashlib.sha256(read_file(file)).hexdigest() for file in files}
