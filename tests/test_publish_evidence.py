"""What is not published: everything without complete, passing evidence for exactly its bytes."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from hostwheel.audit.page import write_page
from hostwheel.audit.read_report import read_report
from hostwheel.errors import BadInput, Refused
from hostwheel.publish import evidence as evidence_module
from hostwheel.publish.entries import items
from hostwheel.publish.evidence import read_evidence
from hostwheel.publish.label import tag_problems
from tests.plans import plan_for
from tests.proved import (
    NOT_RUN,
    PASSED,
    change,
    fill,
    members,
    proved,
    read,
    refusal,
    replanned,
    report_of,
    write,
    write_build,
    write_smoke,
)

PLAN = plan_for("cpu-avx2")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return proved(tmp_path)


def rewrite_report(out: Path, **changes: Any) -> None:
    first, *others = read(out / "audit.json")["reports"]
    change(out / "audit.json", reports=[{**first, **changes}, *others])


def test_what_is_proved_is_taken(out: Path) -> None:
    evidence = read_evidence(out)
    assert {each.kind for each in evidence.artifacts} == {"wheel", "archive"}
    assert evidence.not_run == 1


def test_a_folder_without_a_build_is_no_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="give the out/RECIPE folder of a build"):
        read_evidence(tmp_path)


# missing


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("audit.json", "hostwheel audit"),
        ("smoke.json", "hostwheel smoke cpu-avx2 --out "),
        ("audit.html", "hostwheel audit"),
        ("audit-2.html", "hostwheel audit"),
    ],
)
def test_missing_evidence_is_refused_and_says_how_to_get_it(
    out: Path, name: str, command: str
) -> None:
    (out / name).unlink()
    said = refusal(out)
    assert name in said
    assert f"run `{command}" in said


@pytest.mark.parametrize("name", ["audit.html", "audit-2.html"])
def test_a_page_that_says_something_else_than_audit_json_is_refused(out: Path, name: str) -> None:
    text = (out / name).read_text()
    (out / name).write_text(text.replace("Any x86-64 CPU", "Any CPU at all"))
    assert "its page does not say what audit.json says: run `hostwheel audit" in refusal(out)
    (out / name).write_text(text)
    read_evidence(out)


@pytest.mark.parametrize("name", ["build.json", "audit.json", "smoke.json"])
@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 2}', '{"schema": 1}'])
def test_evidence_of_another_form_is_refused(out: Path, name: str, text: str) -> None:
    (out / name).write_text(text)
    assert refusal(out)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("build.json", "a build"), ("audit.json", "an audit"), ("smoke.json", "a smoke test")],
)
@pytest.mark.parametrize(
    "text", ["", '{"schema": 1}', '{"schema": 1, "x": ' + "[" * 100_000, "[" * 100_000, "\xff"]
)
def test_damaged_evidence_is_told_in_plain_words(
    out: Path, name: str, kind: str, text: str
) -> None:
    (out / name).write_text(text, encoding="latin-1")
    said = refusal(out)
    assert said.startswith(f"{out / name}: is not {kind} of this hostwheel; run `hostwheel ")
    assert "Error" not in said


@pytest.mark.parametrize("name", ["build.json", "smoke.json"])
def test_evidence_of_another_recipe_is_refused(out: Path, name: str) -> None:
    change(out / name, recipe="a10g")
    assert f"{name} is of a10g, the plan of cpu-avx2" in refusal(out)


def test_a_remedy_names_the_recipe_and_where_the_build_lies(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(out.parent.parent)
    elsewhere = Path("built", "mine")
    shutil.copytree(out, elsewhere)
    for folder in (out, elsewhere):
        (folder / "smoke.json").unlink()
    assert "run `hostwheel smoke cpu-avx2`" in refusal(Path("out", "cpu-avx2"))
    assert "run `hostwheel smoke cpu-avx2 --out built`" in refusal(elsewhere)


def test_an_artifact_that_was_not_audited_is_refused(out: Path) -> None:
    change(out / "audit.json", reports=[report_of(out)])
    assert f"audit.json says nothing of {PLAN.archive}" in refusal(out)


def test_an_artifact_that_is_gone_is_refused(out: Path) -> None:
    (out / "dist" / PLAN.archive).unlink()
    assert "was built and is not there" in refusal(out)


def test_a_file_that_was_not_built_is_refused(out: Path) -> None:
    (out / "dist" / "mine-1.0-py3-none-any.whl").write_bytes(b"")
    assert "mine-1.0-py3-none-any.whl: not in build.json" in refusal(out)


# other bytes


def test_a_changed_file_is_refused(out: Path) -> None:
    wheel = out / "dist" / PLAN.wheel
    wheel.write_bytes(wheel.read_bytes() + b"\0")
    assert re.search(r"sha256 \w{64}, built was \w{64}", refusal(out))


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("", "no file, or a link to none"),  # a folder
        ("gone.whl", "no file, or a link to none"),
        ("/dev/null", "no file, or a link to none"),
        ("/proc/self/mem", "cannot be read (Input/output error)"),  # also by root
    ],
)
def test_what_is_no_file_that_can_be_read_is_refused(out: Path, target: str, said: str) -> None:
    wheel = out / "dist" / PLAN.wheel
    wheel.unlink()
    wheel.symlink_to(target) if target else wheel.mkdir()
    assert f"dist/{PLAN.wheel}: {said}: build it again" in refusal(out)


def test_a_build_that_came_after_the_audit_is_refused(out: Path) -> None:
    wheel = out / "dist" / PLAN.wheel
    wheel.write_bytes(wheel.read_bytes() + b"\0")
    write_build(out, PLAN)
    said = refusal(out)
    assert f"audit.json is of another {PLAN.wheel}" in said


def test_smoke_tests_of_other_bytes_are_refused(out: Path) -> None:
    change(out / "smoke.json", artifacts={PLAN.wheel: "0" * 64, PLAN.archive: "0" * 64})
    assert "smoke.json is of other files" in refusal(out)


def test_a_changed_plan_is_refused(out: Path) -> None:
    build = read(out / "build.json")
    change(out / "build.json", plan={**build["plan"], "features": ["sse3"]})
    assert "its plan was changed" in refusal(out)


def test_a_plan_of_another_engine_is_the_same_plan(out: Path) -> None:
    build = read(out / "build.json")
    change(out / "build.json", plan={**build["plan"], "engine": {"name": "docker"}})
    read_evidence(out)


# failing


def test_a_refusal_of_the_audit_is_one_here(out: Path) -> None:
    """A real one: the wheel holds a library that was not planned."""
    files = {**members(), "llama_cpp/extra.so": members()["llama_cpp/lib/libllama.so"]}
    again = out.parent / "again" / "cpu-avx2"
    again.mkdir(parents=True)
    fill(again, PLAN, files)
    said = refusal(again)
    assert re.search(rf"the audit refuses {re.escape(PLAN.wheel)}: [A-Z]+\d+: .* more", said)


def test_an_undecided_audit_is_no_proof(out: Path) -> None:
    rewrite_report(out, verdict="undecided")
    assert "the audit says undecided" in refusal(out)


def test_an_audit_against_a_host_is_not_one_against_the_plan(out: Path) -> None:
    rewrite_report(out, target="aws-g5")
    assert "against aws-g5, not plan cpu-avx2" in refusal(out)


def test_failed_smoke_tests_are_refused(out: Path) -> None:
    write_smoke(out, [PASSED, {**PASSED, "outcome": "failed", "id": "smoke/test_gguf.py::test_x"}])
    assert "1 smoke tests failed, smoke/test_gguf.py::test_x first" in refusal(out)


def test_smoke_tests_that_only_say_why_they_cannot_run_here_are_no_proof(out: Path) -> None:
    """As a machine without the build's CPU features leaves it."""
    reason = "not run here: this CPU lacks avx512f, which the build is compiled for"
    change(out / "smoke.json", checks=[{**NOT_RUN, "id": "smoke", "reason": reason}], passed=False)
    said = refusal(out)
    assert f"smoke.json proves nothing, no check ran ({reason})" in said
    assert re.search(r"run `hostwheel smoke cpu-avx2 --out \S+` where it can run", said)


def test_a_fraction_of_the_suite_is_no_proof(out: Path) -> None:
    """The rest was deleted, or is said not to have run."""
    checks = read(out / "smoke.json")["checks"]
    change(out / "smoke.json", checks=checks[:1])
    assert "smoke/test_numbers.py: 0 checks are told of, the suite has 1" in refusal(out)
    rest = [{**each, "outcome": "not run", "reason": "no time"} for each in checks[1:]]
    change(out / "smoke.json", checks=[checks[0], *rest])
    said = refusal(out)
    assert "smoke/test_numbers.py: no check of it passed" in said
    assert "smoke/test_numbers.py::test_it: not run, and has to be (no time)" in said
    assert "test_gpu" not in said


def test_what_no_table_excuses_has_to_have_run(out: Path) -> None:
    torch = "smoke/test_install.py::test_beside_torch_both_compute[torch then llama_cpp]"
    write_smoke(out, [{**NOT_RUN, "id": torch, "reason": "no torch"}])
    assert f"{torch}: not run, and has to be (no torch)" in refusal(out)


def test_smoke_tests_of_an_older_form_are_refused(out: Path) -> None:
    said = read(out / "smoke.json")
    write(out / "smoke.json", {key: said[key] for key in said if key != "suite"})
    assert "is not a smoke test of this hostwheel; run `hostwheel smoke" in refusal(out)


def test_smoke_tests_that_do_not_say_passed_are_refused(out: Path) -> None:
    change(out / "smoke.json", passed=False)
    assert "does not say passed" in refusal(out)
    change(out / "smoke.json", passed=1)
    assert "does not say passed" in refusal(out)


def test_a_draft_is_refused(out: Path) -> None:
    replanned(out, draft=True)
    assert "cpu-avx2 is a draft, for tests only" in refusal(out)


def test_all_that_is_wrong_is_told_at_once(out: Path) -> None:
    (out / "dist" / PLAN.archive).unlink()
    (out / "dist" / "mine").write_bytes(b"")
    said = refusal(out)
    assert said.startswith(f"{out} is not published:\n")
    assert len(said.splitlines()) == 3


# size, name, tag


def test_e14_more_than_the_budget_is_refused(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E14: files larger than a registry takes. Here the budget is smaller, not the file larger."""
    size = (out / "dist" / PLAN.wheel).stat().st_size
    monkeypatch.setattr(evidence_module, "BUDGET_BYTES", size)
    read_evidence(out)
    monkeypatch.setattr(evidence_module, "BUDGET_BYTES", size - 1)
    assert f"{PLAN.wheel}: {size:,} bytes, the budget is {size - 1:,}" in refusal(out)


def test_d7_a_tag_that_promises_no_glibc_is_refused(out: Path) -> None:
    """D7: two builds were both `linux_x86_64`, one of them for musl."""
    renamed = PLAN.wheel.replace("manylinux_2_35_x86_64", "linux_x86_64")
    report = {**report_of(out), "artifact": renamed}
    assert list(tag_problems(PLAN.json(), report)) == [
        "has the platform tag linux_x86_64, which promises no glibc"
    ]


@pytest.mark.parametrize(
    ("tag", "problem"),
    [
        ("manylinux_2_35_x86_64", None),
        ("manylinux_2_17_x86_64.manylinux2014_x86_64", "promises no glibc"),
        ("manylinux_2_36_x86_64", "is tagged for glibc 2.36, host x86-64-v3 has 2.35"),
        ("manylinux_2_2_x86_64", "is tagged for glibc 2.2 and needs 2."),
    ],
)
def test_a_platform_tag_is_one_that_host_and_files_bear_out(
    out: Path, tag: str, problem: str | None
) -> None:
    report = {
        **report_of(out),
        "artifact": PLAN.wheel.replace("manylinux_2_35_x86_64", tag),
    }
    found = list(tag_problems(PLAN.json(), report))
    assert bool(found) == bool(problem)
    assert any((problem or "") in each for each in found) or not problem


def test_e16_a_wheel_whose_metadata_has_another_version_is_refused(tmp_path: Path) -> None:
    """E16: the wrong CUDA stayed in a wheelhouse, for the version did not tell them apart."""
    info = f"llama_cpp_python-{PLAN.version}.dist-info/METADATA"
    text = b"Metadata-Version: 2.2\nName: llama_cpp_python\nVersion: 0.3.36\n"
    out = tmp_path / "cpu-avx2"
    out.mkdir()
    fill(out, PLAN, {**members(), info: text})
    assert "WHL001" in refusal(out)
    rewrite_report(out, verdict="fits", findings=[])
    write_page(read_report(report_of(out)), out / "audit.html")
    with pytest.raises(Refused, match=r"METADATA has version 0\.3\.36, planned is"):
        list(items(read_evidence(out), "2026-11-30T12:00:00Z"))
