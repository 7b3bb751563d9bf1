"""The arithmetic of the speed floor: when it speaks, and when it may not."""

import random
from pathlib import Path
from statistics import median

import pytest

from hostwheel.facts.isa import OPTIONS
from smoke.speed import (
    FLOOR,
    OF_GGML,
    PAIRS,
    Interval,
    Speed,
    compiled_in,
    difference,
    measure,
    measured_pairs,
    median_interval,
    ratios,
    too_slow,
)

AVX2 = ("avx", "avx2", "bmi2", "f16c", "fma", "popcnt", "sse3", "sse4_1", "sse4_2", "ssse3")

BENCH = """\
#!/bin/sh
echo "$@" >>"$(dirname "$0")/../calls"
echo "$(basename "$(dirname "$0")")" >>"$(dirname "$0")/../order"
echo '[{"n_prompt": 64, "n_gen": 0, "avg_ts": 100.5}, {"n_prompt": 0, "n_gen": 16, "avg_ts": 20}]'
"""


def speeds(factor: float, seed: int = 0) -> list[tuple[Speed, Speed]]:
    """Pairs of a machine whose pace changes by a third from pair to pair, ours `factor` of it."""
    noise = random.Random(seed)
    pairs = []
    for _ in range(PAIRS):
        pace = noise.uniform(0.7, 1.0)
        ours = factor * pace * noise.gauss(1, 0.01)
        pairs.append(
            (
                Speed(prompt=100 * ours, generation=9 * ours),
                Speed(prompt=100 * pace, generation=9 * pace),
            )
        )
    return pairs


def test_fifteen_values_give_the_fourth_from_either_end() -> None:
    """Ranks 4 and 12 of 15, as in the tables of the sign test."""
    assert median_interval([float(value) for value in range(15, 0, -1)]) == Interval(
        low=4.0, median=8.0, high=12.0
    )


@pytest.mark.parametrize(("count", "rank"), [(6, 1), (8, 1), (9, 2), (20, 6), (30, 10)])
def test_ranks_are_those_of_the_sign_test(count: int, rank: int) -> None:
    interval = median_interval([float(value) for value in range(1, count + 1)])
    assert (interval.low, interval.high) == (rank, count + 1 - rank)


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    noise = random.Random(7)
    held = 0
    for _ in range(2000):
        interval = median_interval([noise.lognormvariate(0, 0.5) for _ in range(PAIRS)])
        held += interval.low <= 1.0 <= interval.high
    assert 0.95 <= held / 2000 <= 0.98  # exactly 0.965


def test_one_wild_value_moves_nothing() -> None:
    calm = [1.0 + at / 1000 for at in range(15)]
    wild = [*calm[:-1], 50.0]
    assert median_interval(wild) == median_interval(calm)
    assert median_interval(wild).median == median(calm)


def test_five_values_are_refused() -> None:
    with pytest.raises(ValueError, match="5 values say nothing"):
        median_interval([1.0] * 5)


@pytest.mark.parametrize("factor", [1.0, 1.1, FLOOR])
def test_a_build_that_is_as_fast_passes(factor: float) -> None:
    assert too_slow(ratios(speeds(factor))) == []


def test_a_build_without_avx2_fails() -> None:
    lines = too_slow(ratios(speeds(0.5)))
    assert [line.split(":")[0] for line in lines] == ["prompt", "generation"]
    assert "surely below 0.95" in lines[0]


def test_a_slow_prompt_alone_fails() -> None:
    pairs = [
        (Speed(prompt=ours.prompt / 2, generation=ours.generation), theirs)
        for ours, theirs in speeds(1.0)
    ]
    assert [line.split(":")[0] for line in too_slow(ratios(pairs))] == ["prompt"]


def test_doubt_is_no_failure() -> None:
    """Below the floor in the middle, but the interval reaches above it."""
    doubtful = Interval(low=0.80, median=0.94, high=0.951)
    assert too_slow({"prompt": doubtful}) == []
    assert too_slow({"prompt": Interval(low=0.80, median=0.94, high=0.949)}) != []


def test_ggmls_features_are_those_of_its_options() -> None:
    assert {feature for option in OPTIONS for feature in option.features} == OF_GGML


def test_features_are_read_from_gccs_macros() -> None:
    macros = (
        "#define __AVX2__ 1\n#define __SSE4_1__ 1\n#define __AVX512VNNI__ 1\n#define __MMX__ 1\n"
    )
    assert compiled_in(macros) == {"avx2", "sse4_1", "avx512_vnni"}


def test_equal_features_can_be_compared() -> None:
    assert difference(AVX2, frozenset(reversed(AVX2))) == ""


def test_other_features_cannot_and_the_reason_names_them() -> None:
    assert difference(AVX2, [*AVX2, "avx512f", "avx512bw"]) == (
        "a native build on this CPU has avx512bw, avx512f as well"
    )
    assert difference([*AVX2, "avx_vnni"], [*AVX2, "avx512f"]) == (
        "a native build on this CPU has avx512f as well and lacks avx_vnni"
    )


@pytest.fixture
def libraries(tmp_path: Path) -> tuple[Path, Path]:
    """Two folders with a llama-bench that writes down who was called."""
    for name in ("ours", "native"):
        program = tmp_path / name / "llama-bench"
        program.parent.mkdir()
        program.write_text(BENCH)
        program.chmod(0o755)
    return tmp_path / "ours", tmp_path / "native"


def test_speeds_are_read_from_llama_bench(libraries: tuple[Path, Path], tmp_path: Path) -> None:
    assert measure(libraries[0], Path("model.gguf")) == Speed(prompt=100.5, generation=20.0)
    assert (tmp_path / "calls").read_text().startswith("-m model.gguf ")


def test_pairs_are_interleaved_and_take_turns(libraries: tuple[Path, Path], tmp_path: Path) -> None:
    assert len(measured_pairs(*libraries, Path("model.gguf"))) == PAIRS >= 15
    order = (tmp_path / "order").read_text().split()
    pairs = [tuple(order[at : at + 2]) for at in range(0, len(order), 2)]
    assert pairs[:3] == [("ours", "native"), ("native", "ours"), ("ours", "native")]
    assert {frozenset(pair) for pair in pairs} == {frozenset(("ours", "native"))}
