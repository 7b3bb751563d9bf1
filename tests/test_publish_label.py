"""What a label promises, and what a build needs, as the audit of its files bears it out."""

from pathlib import Path
from typing import Any

import pytest

from hostwheel.publish.entries import needs_of
from hostwheel.publish.label import label_problems
from tests.plans import plan_for
from tests.proved import (
    audit_again,
    change,
    proved,
    read,
    refusal,
    replanned,
    report_of,
    write_smoke,
)

PLAN = plan_for("cpu-avx2")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return proved(tmp_path)


def labelled(label: str, report: dict[str, Any]) -> str:
    plan = {**PLAN.json(), "label": label, "version": f"0.3.36+{label}"}
    name = f"llama_cpp_python-0.3.36+{label}-py3-none-manylinux_2_35_x86_64.whl"
    return "\n".join(label_problems(plan, {**report, "artifact": name}))


def gpu_report(out: Path, sm: str = "86", kind: str = "cubin", **file: Any) -> dict[str, Any]:
    report = report_of(out)
    image = {"kind": kind, "sm": sm, "toolkit": "13.0"}
    cuda = {**report["files"][0], "images": [image], "needed": ["libcudart.so.13"], **file}
    return {**report, "files": [*report["files"], cuda]}


def test_a_label_that_the_files_bear_out(out: Path) -> None:
    assert labelled("cpu.avx2", report_of(out)) == ""
    assert labelled("cu130.sm86.avx2", gpu_report(out)) == ""


@pytest.mark.parametrize(
    ("label", "problem"),
    [
        ("cpu.avx512", "holds no avx512f instruction"),
        ("cpu.avx2.avxvnni", "holds no avx_vnni instruction"),
        ("cpu.avx", "libggml-cpu.so needs avx2 bmi2 f16c fma"),
        ("cpu.any", "libggml-cpu.so needs avx"),
        ("cu130.sm86.avx2", "is labelled sm86 and holds no GPU code"),
        ("rocm7.gfx90a", "has a label of an unknown form"),
    ],
)
def test_a_label_that_the_instructions_do_not_bear_out_is_refused(
    out: Path, label: str, problem: str
) -> None:
    assert problem in labelled(label, report_of(out))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"sm": "80"}, "is labelled sm86 and holds cubin sm_80"),
        ({"kind": "ptx"}, "is labelled sm86 and holds ptx sm_86"),
        ({"needed": ["libcudart.so.12"]}, "needs libraries of CUDA 12"),
        (
            {"images": [{"kind": "cubin", "sm": "86", "toolkit": "12.9"}]},
            "is labelled CUDA 13.0, and its GPU code is of 12.9",
        ),
    ],
)
def test_a_label_that_the_gpu_code_does_not_bear_out_is_refused(
    out: Path, changes: dict[str, Any], problem: str
) -> None:
    assert problem in labelled("cu130.sm86.avx2", gpu_report(out, **changes))


def test_gpu_code_in_a_cpu_build_is_refused(out: Path) -> None:
    said = labelled("cpu.avx2", gpu_report(out))
    assert "is labelled cpu, and" in said
    assert "needs CUDA's libraries" in said


def test_a_variant_file_may_use_what_its_name_says(out: Path) -> None:
    """cpu-any: a file for each of ggml's CPU variants, and nothing beyond the baseline else."""
    report = report_of(out)
    plain = [{**file, "features": {}} for file in report["files"]]
    haswell = {**plain[0], "name": "llama_cpp/lib/libggml-cpu-haswell.so"}
    good = {**report, "files": [*plain, {**haswell, "features": {"avx2": 1, "fma": 2}}]}
    assert labelled("cpu.any", good) == ""
    bad = {**report, "files": [*plain, {**haswell, "features": {"avx512f": 1}}]}
    assert "libggml-cpu-haswell.so needs avx512f" in labelled("cpu.any", bad)


def test_what_the_audit_dismissed_does_not_count_against_the_label(out: Path) -> None:
    report = report_of(out)
    name = report["files"][0]["name"]
    file = {**report["files"][0], "features": {"avx512f": 3}}
    bad = {**report, "files": [*report["files"][1:], file]}
    assert "needs avx512f" in labelled("cpu.avx2", bad)
    dismissed = {"standing": "dismissed", "file": name, "feature": "avx512f"}
    assert labelled("cpu.avx2", {**bad, "findings": [dismissed]}) == ""


def test_a_file_name_without_the_label_is_refused(out: Path) -> None:
    report = {**report_of(out), "artifact": "llama_cpp_python-0.3.36-py3-none-any.whl"}
    assert "version 0.3.36+cpu.avx2 and file name must say so" in "\n".join(
        label_problems(PLAN.json(), report)
    )


def test_a_plan_with_another_label_than_its_build_is_refused(out: Path) -> None:
    """All of it, end to end: built as AVX2, said to be AVX-512."""
    label = "cpu.avx512"
    wheel = PLAN.wheel.replace("cpu.avx2", label)
    archive = PLAN.archive.replace("cpu.avx2", label)
    (out / "dist" / PLAN.wheel).rename(out / "dist" / wheel)
    (out / "dist" / PLAN.archive).rename(out / "dist" / archive)
    version = f"0.3.36+{label}"
    replanned(out, label=label, version=version, wheel=wheel, archive=archive)
    audit_again(out)
    write_smoke(out)
    assert "the audit refuses" in refusal(out)
    reports = [
        {**each, "verdict": "fits", "findings": []} for each in read(out / "audit.json")["reports"]
    ]
    change(out / "audit.json", reports=reports)
    assert "is labelled avx512 and holds no avx512f instruction" in refusal(out)


# needs


def test_a_cuda_build_needs_the_higher_of_both_drivers(out: Path) -> None:
    plan = plan_for("a10g").json()
    report = report_of(out)
    assert needs_of(plan, {**report, "floor": None}).driver == "580.65.06"
    higher = {**report, "floor": {"driver": "590.44.01", "reason": ""}}
    assert needs_of(plan, higher).driver == "590.44.01"
    lower = {**report, "floor": {"driver": "99.1", "reason": ""}}
    made = needs_of(plan, lower)
    assert (made.driver, made.cuda, made.architecture) == ("580.65.06", "13.0", "86")


def test_files_that_ask_for_no_version_need_the_oldest(out: Path) -> None:
    report = {**report_of(out), "files": []}
    made = needs_of(PLAN.json(), report)
    assert (made.glibc, made.glibcxx) == ("2.2.5", "3.4")
