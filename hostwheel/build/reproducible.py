"""Is a plan's product the same bytes each time? Build it twice, and show the first difference."""

import os
import shutil
import tempfile
import zipfile
from pathlib import Path

from lief import ELF

from hostwheel.artifact.binary import open_elf
from hostwheel.artifact.magic import is_elf
from hostwheel.build.build import LOCAL, Builder, build
from hostwheel.build.project import build_folder
from hostwheel.errors import Refused
from hostwheel.plan.data import Data
from hostwheel.plan.plan import Plan


def check_reproducible(
    plan: Plan, data: Data, out: Path, *, archive: Path | None = None, builder: Builder = LOCAL
) -> Path:
    """Build twice at the same path, the second time from nothing and without a compiler cache.

    Return the wheel of the first build; raise Refused with the first difference.
    """
    first = build(plan, data, out, archive=archive, builder=builder)
    shutil.rmtree(build_folder(plan))
    with tempfile.TemporaryDirectory(prefix="hostwheel-again-") as again:
        os.environ["SCCACHE_RECACHE"] = "1"
        try:
            into = Path(again, plan.recipe)
            second = build(plan, data, into, archive=archive, builder=builder)
        finally:
            del os.environ["SCCACHE_RECACHE"]
        for name in (plan.wheel, plan.archive):
            compare(first.with_name(name), second.with_name(name))
    return first


def compare(first: Path, second: Path) -> None:
    """Raise Refused when two files differ; a wheel is looked into."""
    if first.read_bytes() == second.read_bytes():
        return
    where = f"{first.name}: {difference(first, second)}"
    raise Refused(f"two builds of one plan differ, first in {where}")


def difference(first: Path, second: Path) -> str:
    if not zipfile.is_zipfile(first):
        return place(first.read_bytes(), second.read_bytes())
    with zipfile.ZipFile(first) as one, zipfile.ZipFile(second) as two:
        names = [info.filename for info in one.infolist()]
        others = [info.filename for info in two.infolist()]
        if names != others:
            odd = sorted(set(names) ^ set(others))
            return f"the members: {', '.join(odd) or 'another order'}"
        for name in names:
            if one.read(name) != two.read(name):
                return f"{name}: {inside(one.read(name), two.read(name))}"
    return "the zip file's own fields (times, modes, compression)"


def inside(first: bytes, second: bytes) -> str:
    """The first difference of two members; of ELF files, of their first section that differs."""
    with tempfile.TemporaryDirectory() as folder:
        paths = (Path(folder, "first"), Path(folder, "second"))
        for path, content in zip(paths, (first, second), strict=True):
            path.write_bytes(content)
        if not all(is_elf(path) for path in paths):
            return place(first, second)
        return in_sections(*(sections(path) for path in paths)) or place(first, second)


def sections(path: Path) -> list[tuple[str, bytes]]:
    """Names and contents: code and data first, since tables and notes follow from them."""
    elf = open_elf(path)  # kept: LIEF's sections do not outlive their file
    ordered = sorted(elf.sections, key=lambda each: each.type != ELF.Section.TYPE.PROGBITS)
    return [(str(section.name), bytes(section.content)) for section in ordered]


def in_sections(first: list[tuple[str, bytes]], second: list[tuple[str, bytes]]) -> str | None:
    """The first section with another name or other bytes; headers are not looked at."""
    for (name, one), (other, two) in zip(first, second, strict=False):
        if name != other:
            return f"section {name} in the one, {other} in the other"
        if one != two:
            sizes = "" if len(one) == len(two) else f", of {len(one)} and {len(two)} bytes"
            return f"section {name}{sizes}, {place(one, two)}"
    return None


def place(first: bytes, second: bytes) -> str:
    at = offset(first, second)
    before, after = first[at : at + 16], second[at : at + 16]
    return f"at byte {at}: {before!r} and {after!r}"


def offset(first: bytes, second: bytes) -> int:
    """Where two byte strings begin to differ."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[:middle] == second[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
