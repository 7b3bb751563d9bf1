"""Common prefixes and waves: which tokens are decoded once, which texts together."""

import pytest

from hostwheel.readout.share import common_prefix, waves


@pytest.mark.parametrize(
    ("texts", "shared"),
    [
        ([(1, 2, 3), (1, 2, 4)], 2),
        ([(1, 2, 3, 9), (1, 5), (1, 2, 3, 4)], 1),
        ([(7,), (8,)], 0),
        ([(1, 2), (1, 2, 3)], 1),  # the shorter one keeps a token of its own
        ([(1, 2, 3)], 2),
    ],
)
def test_each_text_keeps_a_token_of_its_own(texts: list[tuple[int, ...]], shared: int) -> None:
    assert common_prefix(texts) == shared


@pytest.mark.parametrize(
    ("lengths", "cells", "sequences", "expected"),
    [
        ([], 10, 4, []),
        ([3, 3, 3, 3], 100, 3, [range(3), range(3, 4)]),
        ([3, 3, 3, 3], 6, 9, [range(2), range(2, 4)]),
        ([3, 9, 3], 6, 9, [range(1), range(1, 2), range(2, 3)]),
        ([3, 3], 6, 1, [range(1), range(1, 2)]),
    ],
)
def test_a_wave_is_what_cells_and_sequences_hold(
    lengths: list[int], cells: int, sequences: int, expected: list[range]
) -> None:
    assert list(waves(lengths, cells=cells, sequences=sequences)) == expected
