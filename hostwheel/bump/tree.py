"""An unpacked upstream version → what matters of it, to be compared with another."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hostwheel.bump.listfile import Command, commands
from hostwheel.bump.options import options
from hostwheel.bump.planned import Planned
from hostwheel.bump.rules import rules
from hostwheel.bump.symbols import bound, driver_calls, exported
from hostwheel.bump.targets import AREAS, links, targets
from hostwheel.errors import BadInput

LLAMA_CPP = Path("vendor") / "llama.cpp"
NEVER_BUILT = ("examples", "tests", "pocs", "scripts", "models")
WORD = re.compile(r"\w+")
VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Upstream:
    """`words` are all names that the CMake files mention outside of comments."""

    version: str
    options: Mapping[str, str]
    words: frozenset[str]
    rules: Mapping[str, tuple[str, ...]]
    targets: Mapping[str, str]
    links: frozenset[tuple[str, str]]
    exported: dict[str, str]
    bound: frozenset[str]
    driver_calls: frozenset[str]


def read_upstream(src: Path, planned: Planned) -> Upstream:
    llama_cpp = src / LLAMA_CPP
    files = list_files(llama_cpp)
    everywhere = [command for listed in files.values() for command in listed]
    built = {file: listed for file, listed in files.items() if in_areas(file)}
    return Upstream(
        version=version_of(src),
        options=options(everywhere),
        words=frozenset(word for command in everywhere for word in mentioned(command)),
        rules=rules(files),
        targets=targets(built, planned),
        links=links(built, planned),
        exported=exported(llama_cpp),
        bound=bound(src / "llama_cpp"),
        driver_calls=driver_calls(llama_cpp),
    )


def list_files(llama_cpp: Path) -> Mapping[str, tuple[Command, ...]]:
    """Each CMake file of llama.cpp that a build may read, by its path from there."""
    found = {}
    for path in sorted(llama_cpp.rglob("*")):
        name = path.relative_to(llama_cpp)
        if (path.name == "CMakeLists.txt" or path.suffix == ".cmake") and path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            if name.parts[0] not in NEVER_BUILT:
                found[str(name)] = tuple(commands(text, str(name)))
    if "CMakeLists.txt" not in found:
        raise BadInput(f"no {LLAMA_CPP}/CMakeLists.txt in it: no archive of llama-cpp-python")
    return found


def in_areas(file: str) -> bool:
    path = Path(file)
    third_party = path.parent.parent == Path("vendor")
    return path.name == "CMakeLists.txt" and (str(path.parent) in AREAS or third_party)


def mentioned(command: Command) -> list[str]:
    return WORD.findall(" ".join((*command.args, *command.path)))


def version_of(src: Path) -> str:
    """As upstream's own build reads it."""
    file = src / "llama_cpp" / "__init__.py"
    match = VERSION.search(file.read_text(encoding="utf-8")) if file.is_file() else None
    if match is None:
        raise BadInput("no __version__ in llama_cpp/__init__.py: no archive of llama-cpp-python")
    return match[1]
