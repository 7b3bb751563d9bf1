"""The order of a catalog's builds, the reasons, and what pip and uv make of the answer."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hostwheel.publish.catalog import Entry
from hostwheel.user.pick import Picked, pick
from tests.users import catalog, entry, gpu, host, needing, reason, recipe

ZEN2 = host("zen2")
HOSTS = Path(__file__).parents[1] / "recipes" / "hosts"
UV = (sys.executable, "-m", "uv")


def the_pick(*entries: Entry, python: str | None = None) -> Picked:
    return pick(catalog(*entries), ZEN2, python)


def test_of_one_recipe_the_newest_version_is_taken() -> None:
    """By number: 0.3.9 is older than 0.3.36"""
    picked = the_pick(*(entry("cpu-avx2", version=each) for each in ("0.3.36", "0.3.9", "0.3.4")))
    assert picked.best
    assert picked.best.version.startswith("0.3.36+")
    assert {each.reason for each in picked.others} == {"fits, but is older than 0.3.36"}


def test_fastest_comes_before_newest() -> None:
    picked = the_pick(entry("cpu-avx2", version="0.3.35"), entry("cpu-sse42", version="0.3.36"))
    assert recipe(picked) == "cpu-avx2"
    assert reason(picked, "cpu-sse42") == "fits, but makes no use of avx f16c fma bmi2 avx2"


def test_gpu_code_comes_before_cpu_features() -> None:
    with_gpu = replace(host("zen4"), gpu=gpu("86"))
    picked = pick(catalog(), with_gpu, None)
    assert recipe(picked) == "a10g"
    assert reason(picked, "cpu-avx512") == "fits, but does not use the GPU"
    assert reason(picked, "a10g-cu12") == "fits, but is for CUDA 12.9, and 13.0 runs here"


def test_the_nearest_machine_code_is_taken() -> None:
    """That of 8.6 runs on 8.9 too."""
    picked = pick(catalog(), replace(ZEN2, gpu=gpu("89")), None)
    assert recipe(picked) == "l4"
    assert reason(picked, "a10g") == "fits, but sm_89 is nearer to the GPU"
    assert recipe(pick(catalog(entry("a10g")), replace(ZEN2, gpu=gpu("89")), None)) == "a10g"
    assert recipe(pick(catalog(entry("l4")), replace(ZEN2, gpu=gpu("86")), None)) is None


def test_a_withdrawn_build_is_never_taken() -> None:
    picked = the_pick(
        entry("cpu-avx2", yanked="miscompiled"), entry("cpu-avx2", version="0.3.35", yanked="")
    )
    assert picked.best is None
    assert [each.reason for each in picked.others] == [
        "withdrawn: no reason given",
        "withdrawn: miscompiled",
    ]


def test_a_draft_is_never_taken() -> None:
    draft = replace(entry("cpu-avx2"), version="0.3.36+cpu.avx2.draft", filename="draft.whl")
    assert the_pick(draft).best is None


def test_archives_and_variants_are_no_choice_for_pip() -> None:
    made = entry("cpu-avx2")
    others = (replace(made, kind=kind, filename=kind) for kind in ("archive", "variant"))
    picked = the_pick(*others)
    assert (picked.best, picked.others) == (None, ())


@pytest.mark.parametrize(
    ("driver", "fits"), [("580.159.03", False), ("595.45.04", True), ("595.58", True)]
)
def test_the_drivers_floor_is_exact(driver: str, fits: bool) -> None:
    """B11: 580.159 is a 580, and CUDA 13.2 asks for 595.45.04"""
    newer = needing(entry("a10g"), cuda="13.2", driver="595.45.04")
    picked = pick(catalog(newer), replace(ZEN2, gpu=gpu("86", driver)), None)
    assert (picked.best is not None) is fits


def test_the_floor_of_cuda_13_is_exact_too() -> None:
    """B5, B10"""
    for driver, best in (("580.65.05", None), ("580.65.06", "a10g"), ("550.54.14", None)):
        assert (
            recipe(pick(catalog(entry("a10g")), replace(ZEN2, gpu=gpu("86", driver)), None)) == best
        )


def test_glibc_and_libstdcxx_are_compared() -> None:
    """D1, D4"""
    old = replace(ZEN2, glibc="2.31", glibcxx="3.4.28")
    picked = pick(catalog(), old, None)
    assert picked.best is None
    assert "needs glibc 2.34, here is 2.31" in reason(picked, "cpu-avx2")
    assert "needs GLIBCXX_3.4.30 (GCC 12), here is GLIBCXX_3.4.28" in reason(picked, "cpu-avx2")


def test_pips_tag_counts_where_it_asks_for_more_than_the_files() -> None:
    """D1"""
    picked = pick(catalog(entry("cpu-avx2")), replace(ZEN2, glibc="2.34"), None)
    assert reason(picked, "cpu-avx2") == "its tag asks for glibc 2.35, here is 2.34"


def test_a_musl_wheel_is_no_choice_on_glibc() -> None:
    """D7"""
    picked = the_pick(replace(entry("cpu-avx2"), platform_tag="musllinux_1_2_x86_64"))
    assert reason(picked, "cpu-avx2").startswith("is for musllinux_1_2_x86_64")


def test_musl_fits_nothing() -> None:
    """D7"""
    picked = pick(catalog(), replace(ZEN2, glibc="2.0"), None)
    assert picked.best is None
    assert "the C library here is another (musl" in reason(picked, "cpu-avx2")


def test_the_python_counts_where_it_is_known() -> None:
    made = replace(entry("cpu-avx2"), requires_python=">=3.12")
    assert (
        reason(the_pick(made, python="3.11.7"), "cpu-avx2") == "needs Python >=3.12, here is 3.11.7"
    )
    assert the_pick(made, python="3.13.0rc1").best
    assert the_pick(made).best
