"""What runs as soon as a file is loaded, whatever the CPU."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from iced_x86 import Decoder, FlowControl

from hostwheel.artifact.codes import QUESTIONS
from hostwheel.artifact.layout import ENDLESS, Region

LONGEST = 1 << 14  # bytes


def run_at_load(
    constructors: Iterable[int], path: Path, regions: Sequence[Region]
) -> Iterator[tuple[int, int]]:
    """(start, end) of each constructor's beginning that nothing can keep from running."""
    with path.open("rb") as file:
        for start in sorted(constructors):
            for region in regions:
                if region.address <= start < min(region.end, ENDLESS):
                    file.seek(region.offset + start - region.address)
                    code = file.read(min(LONGEST, region.end - start))
                    yield start, straight(code, start)


def straight(code: bytes, address: int) -> int:
    """Where it first asks the CPU, branches, calls or ends. What a call does is not looked into."""
    at = address
    for instruction in Decoder(64, code, ip=address):
        if instruction.flow_control != FlowControl.NEXT or instruction.code in QUESTIONS:
            break
        at = instruction.next_ip
    return at
