"""Where a function ends that no table tells the size of: leaf functions of Windows, exported."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path

from iced_x86 import Decoder

from hostwheel.artifact.codes import LEAVING
from hostwheel.artifact.layout import Region
from hostwheel.artifact.symbols import Function

LONGEST = 1 << 14


def sized(
    functions: Sequence[Function], path: Path, regions: Sequence[Region]
) -> Iterator[Function]:
    """The functions, in their order, each that lies in a region with a size."""
    with path.open("rb") as file:
        for start, size, name in functions:
            index = bisect_right(regions, start, key=lambda each: each.address) - 1
            if size or index < 0 or start >= regions[index].end:
                yield start, size, name
                continue
            region = regions[index]
            file.seek(region.offset + start - region.address)
            yield start, extent(file.read(min(LONGEST, region.end - start)), start), name


def extent(code: bytes, address: int) -> int:
    """Bytes from its start to the first instruction that leaves it, with no branch past that.

    At least one. It ends as well at what is no instruction, and with `code`.
    """
    furthest = address
    for instruction in Decoder(64, code, ip=address):
        if instruction.is_invalid:
            return max(instruction.ip - address, 1)
        if instruction.is_jcc_short_or_near:
            target = instruction.near_branch_target
            furthest = max(furthest, target if target < address + len(code) else address)
        if instruction.flow_control in LEAVING and instruction.next_ip > furthest:
            return instruction.next_ip - address
    return max(len(code), 1)
