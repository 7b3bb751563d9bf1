"""Folders of the machine that a file was built on, found in its text.

Only what can be nothing else is told: the path of a source or object file, or of a folder that
is named like one of a build, below a place where people and services build. A path that a program
uses (/tmp/x.sock), one of a distribution (/usr/src) and a pattern (/tmp/%s) are left alone.
"""

import mmap
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

from hostwheel.artifact.layout import Region

ROOTS = (
    *("/home/", "/root/", "/Users/", "/build/", "/builds/", "/builddir/", "/tmp/", "/var/tmp/"),
    *("/io/", "/project/", "/workspace/", "/__w/", "/github/", "/croot/", "/host/"),
)
DRIVE = b":\\"
SOURCES = (
    "c|cc|cpp|cxx|cu|cuh|h|hh|hpp|hxx|inc|inl|ipp|tpp|s|asm|f|f90|m|mm|rs|go|pyx|pxd"
    "|o|obj|a|lo|pdb|cubin|ptx|fatbin"
)
BUILDS = "build|builds|_build|src|source|sources|install|stage|prefix|work|runner|site-packages"

LONGEST = 1024
TEXT = re.compile(rb"[A-Za-z0-9_+@.~=/-]+")
WINDOWS_TEXT = re.compile(rb"[A-Za-z0-9_+@.~=/\\ -]+")
SOURCE = re.compile(rf".*[\w+@~=-]\.(?:{SOURCES})", re.IGNORECASE)
BUILD = re.compile(rf".*/(?:[\w.+-]*[-_])?(?:{BUILDS})(?:[-_.][\w.+-]*)?(?:/.*)?")
# What comes before the path of a file or folder: the end of another string, a quote, an option.
BEFORE = re.compile(rb"[^A-Za-z0-9_.%/}$*]|[IL]")
# The largest number that says anything.
MOST = 64


def build_paths(path: Path, code: Iterable[Region] = ()) -> tuple[str, ...]:
    """The folders, sorted; of very many the first ones. They are not looked for in code."""
    if not path.stat().st_size:
        return ()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        found = {each for span in texts(len(content), code) for each in folders(content, *span)}
    return tuple(sorted(found)[:MOST])


def texts(size: int, code: Iterable[Region]) -> Iterator[tuple[int, int]]:
    """Where text may be in a file: what is not code, from and to."""
    at = 0
    for start, end in sorted((each.offset, each.offset + each.size) for each in code):
        if at < start:
            yield at, start
        at = max(at, end)
    yield at, size


def folders(content: mmap.mmap | bytes, start: int, end: int) -> Iterator[str]:
    for root in ROOTS:
        for at in places(content, root.encode(), start, end):
            found = text_at(content, at, TEXT)
            if SOURCE.fullmatch(found):
                yield str(PurePosixPath(found).parent)
            elif BUILD.fullmatch(found.removeprefix(root.rstrip("/"))):
                yield found.rstrip("/")
    for at in places(content, DRIVE, start, end):
        drive = content[at - 1 : at]
        found = text_at(content, at + 1, WINDOWS_TEXT)
        if drive.isalpha() and SOURCE.fullmatch(found):
            yield str(PureWindowsPath(f"{drive.decode()}:{found}").parent)


def places(content: mmap.mmap | bytes, root: bytes, start: int, end: int) -> Iterator[int]:
    """Where a path may begin with `root`."""
    at = content.find(root, start, end)
    while at >= 0:
        if at == 0 or root == DRIVE or BEFORE.fullmatch(content[at - 1 : at]):
            yield at
        at = content.find(root, at + 1, end)


def text_at(content: mmap.mmap | bytes, at: int, form: re.Pattern[bytes]) -> str:
    match = form.match(content[at : at + LONGEST])
    return match[0].decode("ascii") if match else ""
