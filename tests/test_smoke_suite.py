"""Parts of the suite by themselves: which GPU is none, and whether the archive is the wheel."""

import shutil
import subprocess
from pathlib import Path

import pytest

from hostwheel.artifact.smoked import EXCUSES, GROUPS, excused, unproved
from hostwheel.smoke.smoke import suite
from smoke.gpus import devices
from smoke.spoiled import AVX512, plant, shift_by_five
from smoke.test_archive import differing
from tests.plans import plan_for

CUDA = (
    "int cuInit(unsigned flags) { return %d; } int cuDeviceGetCount(int *n) { *n = %d; return 0; }"
)
KERNEL = """
#include <emmintrin.h>
__m128i high(__m128i x) { return _mm_srli_epi16(x, 4); }
int low(int x) { return x >> 3; }
"""
PLAN = plan_for("cpu-avx2").json()


def stub(folder: Path, code: int, count: int) -> str:
    """A libcuda whose cuInit returns `code`."""
    library = folder / "libcuda.so.1"
    argv = ("gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library))
    subprocess.run(argv, input=CUDA % (code, count), text=True, check=True)
    return str(library)


def test_b10_no_driver_and_no_device_are_no_gpu(tmp_path: Path) -> None:
    none = tmp_path / "nvidia0"
    assert devices(str(tmp_path / "no.so"), none) == 0
    assert devices(stub(tmp_path, 100, 0), none) == 0


def test_b10_gpus_are_counted(tmp_path: Path) -> None:
    (tmp_path / "nvidia0").touch()
    assert devices(stub(tmp_path, 0, 2), tmp_path / "nvidia0") == 2


@pytest.mark.parametrize("code", [3, 34, 802, 803, 999])
def test_b10_a_driver_that_does_not_work_is_a_failure(tmp_path: Path, code: int) -> None:
    with pytest.raises(pytest.fail.Exception, match=f"gives CUDA error {code};"):
        devices(stub(tmp_path, code, 0), tmp_path / "nvidia0")


@pytest.mark.parametrize("code", [0, 100])
def test_b10_a_device_that_the_driver_does_not_see_is_a_failure(tmp_path: Path, code: int) -> None:
    (tmp_path / "nvidia0").touch()
    with pytest.raises(pytest.fail.Exception, match=rf"sees no GPU \(CUDA error {code}\)"):
        devices(stub(tmp_path, code, 0), tmp_path / "nvidia0")
    with pytest.raises(pytest.fail.Exception, match="there is no /"):
        devices(str(tmp_path / "no.so"), tmp_path / "nvidia0")


def test_b10_a_driver_that_cannot_be_loaded_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("no library")
    with pytest.raises(pytest.fail.Exception, match="cannot be loaded"):
        devices(str(tmp_path / "libcuda.so.1"), tmp_path / "nvidia0")


def test_an_archive_of_other_libraries_than_the_wheels_is_noticed(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "archive", tmp_path / "wheel"
    ours.mkdir()
    (ours / "libllama.so").write_text("one")
    shutil.copytree(ours, theirs)
    assert differing(ours, theirs) == []
    (theirs / "libllama.so").write_text("two")
    (ours / "libmore.so").touch()
    assert differing(ours, theirs) == ["libllama.so", "libmore.so"]


def test_the_table_names_what_the_suite_has() -> None:
    """Every file is either one that has to pass or is excused as a whole."""
    files = {path.stem.removeprefix("test_") for path in suite().glob("test_*.py")}
    assert files == {*GROUPS, "gpu", "speed"}
    texts = {f"smoke/{path.name}": path.read_text() for path in suite().glob("test_*.py")}
    for each in EXCUSES:
        file, _, name = each.checks.partition("::")
        assert all(part in texts[file] for part in name.split("*")), each


def test_what_is_excused_hangs_on_the_plan() -> None:
    emulated = "smoke/test_cpu.py::test_planted_avx512_is_caught[no model]"
    older = "smoke/test_cpu.py::test_the_programs_refuse_an_older_cpu"
    assert not excused(emulated, PLAN)
    assert not excused(older, PLAN)
    assert excused(older, {**PLAN, "features": []})
    host = {**PLAN["host"], "cpu": {**PLAN["host"]["cpu"], "emulate": None}}
    assert excused(emulated, {**PLAN, "host": host})
    assert excused("smoke/test_install.py::test_another_python[NOTSET]", PLAN)
    assert not excused("smoke/test_archive.py::test_a_model_is_computed", PLAN)


def test_a_check_that_is_told_of_and_not_collected_is_noticed() -> None:
    checks = [
        {"id": f"smoke/test_{name}.py::test_it", "outcome": "passed", "reason": ""}
        for name in GROUPS
    ]
    collected = {f"smoke/test_{name}.py": 1 for name in GROUPS}
    assert list(unproved(checks, collected, PLAN)) == []
    more = {**checks[0], "id": "smoke/test_archive.py::test_more"}
    assert list(unproved([*checks, more], collected, PLAN)) == [
        "smoke/test_archive.py: 2 checks are told of, the suite has 1"
    ]


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    library = tmp_path / "libkernel.so"
    argv = ("gcc", "-O1", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library))
    subprocess.run(argv, input=KERNEL, text=True, check=True)
    return library


def test_what_is_planted_starts_the_function(kernel: Path) -> None:
    before = kernel.read_bytes()
    plant(kernel, "high")
    after = kernel.read_bytes()
    start = after.index(AVX512)
    assert after == before[:start] + AVX512 + before[start + len(AVX512) :]
    assert before[start : start + 4] in (b"\xf3\x0f\x1e\xfa", b"\x66\x0f\x71\xd0")  # endbr64, psrlw
    with pytest.raises(ValueError, match="has no function nowhere"):
        plant(kernel, "nowhere")


def test_a_shifted_kernel_shifts_by_five(kernel: Path) -> None:
    before = kernel.read_bytes()
    shift_by_five(kernel.parent, "high")
    assert kernel.read_bytes() == before.replace(b"\x66\x0f\x71\xd0\x04", b"\x66\x0f\x71\xd0\x05")
    assert kernel.read_bytes() != before
    with pytest.raises(ValueError, match="no low in it that shifts words by 4 bits"):
        shift_by_five(kernel.parent, "low")
