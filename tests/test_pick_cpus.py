"""Recorded real CPUs against a catalog of every recipe: the right pick, the right refusals."""

from dataclasses import replace

import pytest

from hostwheel.facts import cpuid
from hostwheel.user.pick import pick
from tests.users import CPU_NAMES, CPUS, catalog, entry, gpu, host, reason, recipe, recorded

# What a machine with this CPU and no GPU gets, and what keeps it from the next better one.
PICKS = {
    "k10": ("cpu-any", "cpu-sse42", "lacks sse4_1 sse4_2 ssse3"),
    "sandybridge": ("cpu-avx", "cpu-avx2", "lacks avx2 bmi2 f16c fma"),
    "ivybridge": ("cpu-avx", "cpu-avx2", "lacks avx2 bmi2 fma"),
    "piledriver": ("cpu-avx", "cpu-avx2", "lacks avx2 bmi2"),
    "haswell": ("cpu-avx2", "cpu-avx512", "lacks avx512bw avx512cd avx512dq avx512f avx512vl"),
    "broadwell": ("cpu-avx2", "cpu-avx512", "lacks avx512bw avx512cd avx512dq avx512f avx512vl"),
    "skylake-x": ("cpu-avx512", "t4", "lacks avx512_vnni"),
    "cascadelake": ("cpu-avx512", "t4", "there is no NVIDIA GPU here"),
    "icelake": ("cpu-avx512", "t4", "there is no NVIDIA GPU here"),
    "alderlake": ("cpu-avx2", "cpu-avx512", "lacks avx512bw avx512cd avx512dq avx512f avx512vl"),
    "raptorlake": ("cpu-avx2", "cpu-avx512", "lacks avx512bw avx512cd avx512dq avx512f avx512vl"),
    "arrowlake": ("cpu-avx2", "cpu-avx512", "lacks avx512bw avx512cd avx512dq avx512f avx512vl"),
    "sapphirerapids": ("cpu-avx512", "t4", "there is no NVIDIA GPU here"),
    "zen1": ("cpu-avx2", "cpu-avx512", "lacks avx512bw avx512cd avx512dq avx512f avx512vl"),
    "zen2": ("cpu-avx2", "cpu-avx512", "lacks avx512bw avx512cd avx512dq avx512f avx512vl"),
    "zen3": ("cpu-avx2", "cpu-avx512", "lacks avx512bw avx512cd avx512dq avx512f avx512vl"),
    "zen4": ("cpu-avx512", "t4", "there is no NVIDIA GPU here"),
    "zen5": ("cpu-avx512", "t4", "there is no NVIDIA GPU here"),
}


def test_every_recorded_cpu_has_its_pick() -> None:
    assert set(CPU_NAMES) == PICKS.keys()
    assert len(PICKS) >= 12


@pytest.mark.parametrize("cpu", PICKS)
def test_the_pick_for_a_cpu_alone(cpu: str) -> None:
    """A7, A10, A17: the widest code that it runs, and why not the next"""
    best, refused, why = PICKS[cpu]
    picked = pick(catalog(), host(cpu), "3.11.7")
    assert recipe(picked) == best
    assert why in reason(picked, refused)
    assert len(picked.others) == len(catalog().entries) - 1
    assert all(each.reason and "\n" not in each.reason for each in picked.others)


@pytest.mark.parametrize("cpu", PICKS)
def test_no_pick_needs_what_the_cpu_lacks(cpu: str) -> None:
    picked = pick(catalog(), host(cpu), None)
    assert picked.best
    assert set(picked.best.needs.features) <= set(recorded(cpu)[1])


@pytest.mark.parametrize(
    ("cpu", "compute", "best"),
    [
        ("zen2", "86", "a10g"),
        ("zen3", "89", "l4"),
        ("zen3", "90", "h100"),
        ("cascadelake", "75", "t4"),
        ("cascadelake", "80", "a100"),
        ("raptorlake", "120", "rtx50"),
        ("raptorlake", "121", "cpu-avx2"),  # sm_120a is for the 120 alone
        ("zen5", "87", "a10g"),  # machine code of 8.6 runs on 8.7
        ("sapphirerapids", "100", "cpu-avx512"),
        ("haswell", "61", "cpu-avx2"),  # B3: a P400 or GTX 1080
        ("haswell", "75", "cpu-avx2"),  # a T4 in a machine that the recipe t4 was not made for
    ],
)
def test_the_pick_with_a_gpu(cpu: str, compute: str, best: str) -> None:
    """B3"""
    picked = pick(catalog(), host(cpu, gpu(compute)), "3.11.7")
    assert recipe(picked) == best
    assert bool(picked.warning) == best.startswith("cpu")


def test_the_warning_names_the_gpu_that_nothing_uses() -> None:
    picked = pick(catalog(), host("haswell", gpu("61")), None)
    assert picked.warning == "no build here uses the card 61: this one runs on the CPU"


def test_the_a10g_host_with_an_older_driver_gets_cuda_12() -> None:
    """B13: chosen by the host's driver"""
    picked = pick(catalog(), host("zen2", gpu("86", "535.54.03")), None)
    assert recipe(picked) == "a10g-cu12"
    assert "needs NVIDIA driver 580.65.06 or newer, here is 535.54.03" in reason(picked, "a10g")


def test_a_masked_feature_counts_as_absent() -> None:
    """A19: the preflight asks for features, not for the model"""
    whole = host("zen2")
    features = tuple(each for each in whole.cpu.features if each not in ("fma", "avx2"))
    masked = replace(whole, cpu=replace(whole.cpu, features=features))
    picked = pick(catalog(), masked, None)
    assert recipe(picked) == "cpu-avx"
    assert "lacks avx2 fma" in reason(picked, "cpu-avx2")


def test_a9_a_build_of_a_developers_pc_is_refused_on_arrow_lake() -> None:
    """A9: needs AVX-512, which its own system_info would have claimed"""
    picked = pick(catalog(entry("cpu-avx512")), host("arrowlake"), None)
    assert picked.best is None
    assert "lacks avx512bw" in reason(picked, "cpu-avx512")


def test_recorded_cpuid_is_read_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorded CPUID, with and without a kernel that saves the registers of AVX-512."""
    lines = (CPUS / "tigerlake.cpuid").read_text().splitlines()
    rows = [tuple(int(each) for each in line.split(",")) for line in lines]
    leaves = {row[:2]: row[2:] for row in rows}
    none = (0, 0, 0, 0)
    monkeypatch.setattr(cpuid, "_cpuid", lambda page, leaf, sub: leaves.get((leaf, sub), none))
    monkeypatch.setattr(cpuid, "_executable", lambda code: None)
    monkeypatch.setattr(cpuid, "_xcr0", lambda page: 0xE7)
    found = cpuid.Cpu()
    assert found.brand == "11th Gen Intel(R) Core(TM) i7-1185G7 @ 3.00GHz"
    assert {"avx2", "fma", "avx512f", "avx512_vnni", "avx512_vbmi2", "gfni"} <= set(found.features)
    assert not {"avx_vnni", "avx512_bf16", "amx_tile", "sse4a"} & set(found.features)
    monkeypatch.setattr(cpuid, "_xcr0", lambda page: 0x7)
    without = set(found.features) - set(cpuid.Cpu().features)
    assert without == {each for each in found.features if each.startswith("avx512")}
