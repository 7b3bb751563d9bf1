"""The check of logits itself: it passes what rounding explains, and nothing else."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from smoke.bounds import CACHE_ROUNDING, ROUNDING, WORST, Answer, Setting, Task, bound, faults

SETTING = Setting(batch=7, kv="F32", flash=False)
TASK = Task(kind="Q4_K", repacked=False, model=Path("m"), tokens=(1,), settings=(SETTING,))
RANDOM = np.random.default_rng(3)
EXACT = RANDOM.standard_normal(32000) * 2.5
ERRORS = RANDOM.standard_normal(32000)


def found(row: NDArray[np.float64]) -> list[str]:
    rows: Mapping[str, NDArray[np.float32]] = {TASK.name(SETTING): row.astype(np.float32)}
    return list(faults(TASK, Answer(rows=rows, said=""), EXACT))


def test_exact_logits_pass() -> None:
    assert found(EXACT) == []


@pytest.mark.parametrize(("share", "wrong"), [(0.9, False), (1.1, True)])
def test_errors_in_all_logits_are_held_against_the_bound(share: float, wrong: bool) -> None:
    assert bool(found(EXACT + ERRORS * EXACT.std() * bound("Q4_K", "F32") * share)) is wrong


def test_one_wrong_logit_in_32000_is_a_fault() -> None:
    row = EXACT.copy()
    row[31999] += EXACT.std() * bound("Q4_K", "F32") * WORST * 1.01
    (line,) = found(row)
    assert line.startswith("Q4_K, plain, batch 7, F32 cache, plain attention, threads 1: logits")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_is_a_fault(value: float) -> None:
    row = EXACT.copy()
    row[5] = value
    assert len(found(row)) == 1


def test_logits_of_another_prompt_are_a_fault() -> None:
    assert len(found(EXACT[::-1].copy())) == 1


def test_a_row_that_is_missing_is_an_error() -> None:
    with pytest.raises(KeyError, match="batch 7"):
        list(faults(TASK, Answer(rows={}, said=""), EXACT))


def test_no_bound_lets_a_lost_sub_block_through() -> None:
    """32 of 256 weights left out put a product off by sqrt(1/8)."""
    largest = max(bound(kind, kv) for kind in ROUNDING for kv in CACHE_ROUNDING)
    assert largest < np.sqrt(1 / 8) / 5
