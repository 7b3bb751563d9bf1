"""Where the code of a native file lies, and whose it is: what the format readers hand on."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from hostwheel.artifact.facts import Image, Native
from hostwheel.artifact.symbols import Function

ENDLESS = 1 << 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Region:
    """Executable bytes: where in memory, where in the file, how many."""

    address: int
    offset: int
    size: int

    @property
    def end(self) -> int:
        return self.address + self.size


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """Functions (by address) of which one is chosen by asking the CPU, and how that is known."""

    reason: str
    functions: frozenset[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """What is known of a file before its code is decoded.

    `regions` is None where the machine is not x86-64. `functions` are (address, size, name) by
    address, one for each; not `exact` where none has a size. `asks`: an import or a relocation
    asks the CPU. `gated` are functions that run only after a question was put, by address, with
    the reason. `at_load` is where constructors begin that run without a question, and to where.
    """

    native: Native
    images: tuple[Image, ...]
    regions: tuple[Region, ...] | None
    functions: tuple[Function, ...]
    asks: bool
    exact: bool = True
    choices: tuple[Choice, ...] = ()
    gated: Mapping[int, str] = field(default_factory=dict)
    at_load: Mapping[int, int] = field(default_factory=dict)


Piece = tuple[int, int, int]


def pieces(functions: Iterable[Function]) -> Iterator[Piece]:
    """(start, end, owner's address) without overlap, by address; the innermost function owns.

    A function without a size reaches to the next one that begins.
    """
    inside: list[tuple[int, int]] = []
    at = 0
    for (start, size, _), (after, _, _) in pairwise((*functions, (ENDLESS, 0, ""))):
        while inside and inside[-1][0] <= start:
            end, owner = inside.pop()
            if at < end:
                yield at, end, owner
                at = end
        if inside and at < start:
            yield at, start, inside[-1][1]
        at = max(at, start)
        inside.append((start + size if size else after, start))
    while inside:
        end, owner = inside.pop()
        if at < end:
            yield at, end, owner
            at = end


def named(known: Iterable[Function], unwound: Iterable[tuple[int, int]]) -> tuple[Function, ...]:
    """Functions by address, of (address, size) from unwind tables those that no symbol names.

    They are named by their address. A symbol's size wins, unless it has none.
    """
    sizes: dict[int, int] = {}
    for start, size in unwound:
        sizes[start] = max(size, sizes.get(start, 0))
    found = {start: (start, size or sizes.get(start, 0), name) for start, size, name in known}
    for start, size in sizes.items():
        found.setdefault(start, (start, size, hex(start)))
    return tuple(found[start] for start in sorted(found))
