"""A file's code in parts that can be decoded one by one, each beginning where a function does."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path

from hostwheel.artifact.disasm import Chunk
from hostwheel.artifact.layout import Layout, Piece, Region, pieces
from hostwheel.errors import BadInput

# Bytes: a tenth of a second's work, so that all cores end together.
SIZE = 1 << 20
# Of addresses.
END = 1 << 64


def chunks(path: Path, layout: Layout) -> Iterator[Chunk]:
    """All executable bytes; BadInput where a header says more than can be."""
    regions = layout.regions or ()
    if sum(each.size for each in regions) > path.stat().st_size:
        raise BadInput(f"{path}: damaged: its sections of code are larger than the file")
    if any(each.end > END for each in regions):
        raise BadInput(f"{path}: damaged: its code has addresses past the last one")
    owned = tuple(pieces(layout.functions))
    for region in regions:
        yield from parts(path, region, owned, exact=layout.exact)


def parts(path: Path, region: Region, owned: Sequence[Piece], *, exact: bool) -> Iterator[Chunk]:
    at = region.address
    while at < region.end:
        end = boundary(at + SIZE, region.end, owned)
        yield Chunk(
            path=path,
            offset=region.offset + at - region.address,
            address=at,
            size=end - at,
            pieces=tuple(within(at, end, owned)),
            exact=exact,
        )
        at = end


def boundary(wanted: int, last: int, owned: Sequence[Piece]) -> int:
    """`wanted`, or where the function ends that it lies in."""
    index = bisect_right(owned, wanted, key=lambda each: each[0]) - 1
    if index >= 0 and owned[index][0] < wanted < owned[index][1]:
        return min(owned[index][1], last)
    return min(wanted, last)


def within(start: int, end: int, owned: Sequence[Piece]) -> Iterator[Piece]:
    for index in range(bisect_right(owned, start, key=lambda each: each[1]), len(owned)):
        first, last, owner = owned[index]
        if first >= end:
            return
        yield max(first, start), min(last, end), owner
