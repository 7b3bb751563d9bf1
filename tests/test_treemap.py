"""Squarified rectangles: they fill the box by size, do not overlap, and are nearly square."""

from itertools import combinations

import pytest

from hostwheel.audit.treemap import Rect, squarified

BOX = Rect(x=10, y=20, width=600, height=400)
MANY = [1_000_000 / n**1.5 for n in range(1, 201)]


def overlap(a: Rect, b: Rect) -> float:
    across = min(a.x + a.width, b.x + b.width) - max(a.x, b.x)
    down = min(a.y + a.height, b.y + b.height) - max(a.y, b.y)
    return max(across, 0) * max(down, 0)


def test_the_example_of_the_paper() -> None:
    rects = squarified([6, 6, 4, 3, 2, 2, 1], Rect(x=0, y=0, width=6, height=4))
    assert [(r.x, r.y, r.width, r.height) for r in rects[:4]] == [
        (0, 0, 3, 2),
        (0, 2, 3, 2),
        (3, 0, pytest.approx(12 / 7), pytest.approx(7 / 3)),
        (pytest.approx(3 + 12 / 7), 0, pytest.approx(9 / 7), pytest.approx(7 / 3)),
    ]


@pytest.mark.parametrize(
    "sizes", [[1], [5, 5], [1, 1000], [3, 2, 1], [1e-9, 1e9], MANY, [7] * 50], ids=range(7)
)
def test_areas_go_by_size_and_fill_the_box_without_overlap(sizes: list[float]) -> None:
    rects = squarified(sizes, BOX)
    assert [rect.area for rect in rects] == pytest.approx(
        [size / sum(sizes) * BOX.area for size in sizes]
    )
    assert (
        max(overlap(a, b) for a, b in combinations([*rects, Rect(x=0, y=0, width=1, height=1)], 2))
        < 1e-6
    )
    for rect in rects:
        assert overlap(rect, BOX) == pytest.approx(rect.area)


def test_equal_sizes_come_out_nearly_square() -> None:
    for rect in squarified([7] * 50, BOX):
        assert 0.5 < rect.width / rect.height < 2


def test_nothing_to_place_is_no_rectangle() -> None:
    assert squarified([], BOX) == ()


def test_a_box_without_area_holds_rectangles_without_area() -> None:
    flat = Rect(x=0, y=0, width=50, height=0)
    assert [rect.area for rect in squarified([3, 2, 1], flat)] == [0, 0, 0]
