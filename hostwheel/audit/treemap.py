"""Rectangles that share a box by size: a squarified treemap (Bruls, Huizing, van Wijk, 2000)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, kw_only=True, slots=True)
class Rect:
    """Left, top, width and height in any one unit."""

    x: float
    y: float
    width: float
    height: float

    @property
    def area(self) -> float:
        return self.width * self.height


def squarified(sizes: Sequence[float], box: Rect) -> tuple[Rect, ...]:
    """A rectangle for each of `sizes`, in that order, which fill `box` by size.

    Sizes are positive. In descending order the rectangles come out as square as they can.
    """
    scale = box.area / (sum(sizes) or 1)
    areas = [size * scale for size in sizes]
    placed: list[Rect] = []
    while areas:
        count = row_length(areas, min(box.width, box.height))
        row, box = split(areas[:count], box)
        placed += row
        areas = areas[count:]
    return tuple(placed)


def row_length(areas: Sequence[float], side: float) -> int:
    """How many of the first `areas` go into one row along `side`: as long as it gets squarer."""
    total, least, most = 0.0, areas[0], areas[0]
    worst = float("inf")
    for count, area in enumerate(areas):
        total, least, most = total + area, min(least, area), max(most, area)
        thick = total / side if side else 0
        ratio = max(most / thick**2, thick**2 / least) if thick and least else float("inf")
        if count and ratio > worst:
            return count
        worst = ratio
    return len(areas)


def split(areas: Sequence[float], box: Rect) -> tuple[list[Rect], Rect]:
    """One row along the shorter side of `box`, and what is left of it."""
    total = sum(areas)
    shares = [sum(areas[:n]) / total if total else 0 for n in range(len(areas) + 1)]
    if box.width >= box.height:
        thick = min(total / box.height, box.width) if box.height else 0
        row = [
            Rect(x=box.x, y=box.y + a * box.height, width=thick, height=(b - a) * box.height)
            for a, b in pairwise(shares)
        ]
        rest = Rect(x=box.x + thick, y=box.y, width=box.width - thick, height=box.height)
    else:
        thick = min(total / box.width, box.height) if box.width else 0
        row = [
            Rect(x=box.x + a * box.width, y=box.y, width=(b - a) * box.width, height=thick)
            for a, b in pairwise(shares)
        ]
        rest = Rect(x=box.x, y=box.y + thick, width=box.width, height=box.height - thick)
    return row, rest
