"""WHL001 and WHL002: a wheel says one thing of itself, and holds each thing once."""

import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from hostwheel.audit.result import Report
from hostwheel.facts.policy import BUDGET_BYTES
from tests.audits import (
    AVX2_PLAN,
    G5,
    NOTHING,
    artifact,
    audited,
    found_in,
    messages,
    native_file,
    pack,
    plain_wheel,
    planned_wheel,
    standing,
)
from tests.plans import LIB, plan_for, wheel_files

PLAN = plan_for("cpu-avx2")
INFO = "pkg-1.0.dist-info"


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    """What is in a wheel of the AVX2 recipe."""
    return wheel_files(PLAN, tmp_path_factory.mktemp("planned"))


def told(path: Path) -> list[str]:
    report = audited(path, NOTHING)
    found = [each for each in report.findings if each.check == "WHL001"]
    assert {each.standing for each in found} <= {"refused"}
    return [each.message for each in found]


def renamed(path: Path, old: str, new: str) -> Path:
    return Path(shutil.copy(path, path.with_name(path.name.replace(old, new))))


def rewritten(path: Path, name: str, content: bytes | None) -> Path:
    """The wheel with another member, or without it; RECORD as it was."""
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    members.pop(name, None)
    if content is not None:
        members[name] = content
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    return path


def test_a_whole_wheel_passes(tmp_path: Path) -> None:
    assert told(plain_wheel(tmp_path)) == []


def test_a_renamed_wheel_is_refused(tmp_path: Path) -> None:
    """D9, D10: `mv` to add a label."""
    found = told(renamed(plain_wheel(tmp_path), "-1.0-", "-1.0+cu130-"))
    assert found == [
        "the file name says 1.0+cu130, METADATA says 1.0",
        f"the file name says pkg 1.0+cu130, the folder is {INFO}",
    ]


def test_another_name_and_another_tag_are_refused(tmp_path: Path) -> None:
    path = plain_wheel(tmp_path)
    assert "the file name says other, METADATA says pkg" in told(renamed(path, "pkg", "other"))
    (found,) = told(renamed(path, "manylinux_2_35", "manylinux_2_17"))
    assert found.endswith("WHEEL says py3-none-manylinux_2_35_x86_64")


def test_a_name_that_does_not_parse_is_refused(tmp_path: Path) -> None:
    (found,) = told(renamed(plain_wheel(tmp_path), "pkg-1.0-py3-none-", "pkg-new-"))
    assert found.startswith("file name: ")


def test_several_tags_in_one_name_are_no_difference(tmp_path: Path) -> None:
    path = renamed(plain_wheel(tmp_path), "py3-", "py2.py3-")
    tags = b"Tag: py2.py3-none-manylinux_2_35_x86_64\n"
    assert not any("WHEEL says" in each for each in told(rewritten(path, f"{INFO}/WHEEL", tags)))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("pkg/__init__.py", b"changed", "pkg/__init__.py has other bytes than RECORD says"),
        ("pkg/__init__.py", None, "pkg/__init__.py is in RECORD and not in the wheel"),
        ("pkg/more.py", b"more", "pkg/more.py is not in RECORD"),
        (f"{INFO}/METADATA", None, "no METADATA in its dist-info folder"),
        (f"{INFO}/WHEEL", None, "no WHEEL in its dist-info folder"),
        (f"{INFO}/RECORD", None, "no RECORD in its dist-info folder"),
        (f"{INFO}/RECORD", b"pkg/__init__.py,,\n", "pkg/__init__.py has no sha256 or stronger"),
        (f"{INFO}/RECORD", b"a,b\n", "RECORD has a row of 2 columns: a,b"),
        (f"{INFO}/METADATA", b"Name: \xff\n", "is not UTF-8"),
        ("pkg-2.0.dist-info/METADATA", b"Name: pkg\n", "2 dist-info folders, expected one"),
    ],
)
def test_each_account_counts(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    found = told(rewritten(plain_wheel(tmp_path), name, content))
    assert any(message in each for each in found), found


def test_a_requirement_that_is_none_is_refused(tmp_path: Path) -> None:
    (found,) = told(plain_wheel(tmp_path, requires_dist="numpy >>> 1"))
    assert "which is no requirement" in found


def test_many_differences_are_counted(tmp_path: Path) -> None:
    path = rewritten(plain_wheel(tmp_path), f"{INFO}/RECORD", b"x" + b"\nx" * 50)
    assert told(path)[-1].startswith("and 49 more")


# against a plan


def against_plan(path: Path) -> Report:
    return audited(path, AVX2_PLAN)


def test_a_planned_wheel_passes(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    assert against_plan(planned_wheel(tmp_path, PLAN, files)).verdict == "fits"


def test_another_version_than_planned_is_refused(tmp_path: Path) -> None:
    (first, *rest) = messages(against_plan(plain_wheel(tmp_path)).findings, "WHL001")
    assert first.endswith(f"planned is {PLAN.wheel}")
    assert f"METADATA has version 1.0, planned is {PLAN.version}" in rest


@pytest.mark.parametrize("requires", [("nvidia-cublas>=13,<14",), ("nvidia-cublas-cu12",)])
def test_another_requirement_than_planned_is_refused(requires: tuple[str, ...]) -> None:
    """C7, C8"""
    plan = replace(PLAN, requires=("nvidia-cublas>=12,<13",))
    target = replace(AVX2_PLAN, plan=plan)
    found = messages(found_in(artifact(requires=requires), target, "WHL001"), "WHL001")
    assert "METADATA does not require nvidia-cublas<13,>=12" in found
    assert any("which is not planned" in each for each in found)


@pytest.mark.parametrize(
    "name", ["lib/libllama.so", "include/llama.h", "llama_cpp/lib/libx.a", "llama_cpp/old.json"]
)
def test_a_stray_member_is_refused(tmp_path: Path, files: Mapping[str, bytes], name: str) -> None:
    """F11"""
    report = against_plan(planned_wheel(tmp_path, PLAN, {**files, name: b"stray"}))
    found = messages(standing(report.findings, "refused"), "WHL002")
    assert f"{name} does not belong into the wheel" in found


@pytest.mark.parametrize("name", ["libllama.so", "llama-server"])
def test_a_missing_member_is_refused(tmp_path: Path, files: Mapping[str, bytes], name: str) -> None:
    fewer = {member: content for member, content in files.items() if member != f"{LIB}/{name}"}
    report = against_plan(planned_wheel(tmp_path, PLAN, fewer))
    assert f"{LIB}/{name} is missing" in messages(report.findings, "WHL002")


# WHL002 of anyone's


def test_the_same_bytes_under_three_names_are_told(tmp_path: Path) -> None:
    """F12"""
    names = ("pkg/libx.so", "pkg/libx.so.0", "pkg/libx.so.0.1")
    report = audited(plain_wheel(tmp_path, dict.fromkeys(names, b"same bytes")), G5)
    (found,) = [each for each in report.findings if each.check == "WHL002"]
    assert (found.standing, report.verdict) == ("noted", "fits")
    assert found.message == f"3 times the same 10 bytes: {', '.join(names)}"


def test_a_copy_is_refused_in_our_own_wheel(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    """F12"""
    copy = {f"{LIB}/libllama.so.0": files[f"{LIB}/libllama.so"]}
    report = against_plan(planned_wheel(tmp_path, PLAN, {**files, **copy}))
    found = messages(standing(report.findings, "refused"), "WHL002")
    assert any(each.startswith("2 times the same") for each in found)


def test_empty_files_and_different_ones_are_no_copies(tmp_path: Path) -> None:
    files = {"pkg/a/__init__.py": b"", "pkg/b/__init__.py": b"", "pkg/c": b"c", "pkg/d": b"d"}
    assert messages(audited(plain_wheel(tmp_path, files), G5).findings, "WHL002") == []


@pytest.mark.parametrize("name", ["include/llama.h", "bin/llama-cli", "lib/libllama.so"])
def test_what_leaks_into_site_packages_is_told(tmp_path: Path, name: str) -> None:
    """F11"""
    report = audited(plain_wheel(tmp_path, {name: b"leaked"}), G5)
    (found,) = standing(report.findings, "noted", "WHL002")
    assert found.message == f"a folder {name.split('/')[0]}/ at the top of site-packages"


def test_the_budget(tmp_path: Path) -> None:
    """E14"""
    small = artifact(native_file())
    large = replace(small, contents=replace(small.contents, size=BUDGET_BYTES + 1))
    (found,) = found_in(large, G5, "WHL002")
    assert (found.standing, "104,857,601 bytes" in found.message) == ("noted", True)
    assert found_in(small, G5, "WHL002") == []


def test_an_unsigned_record_may_have_signatures_beside_it(tmp_path: Path) -> None:
    """PEP 427: RECORD.jws is not recorded."""
    path = rewritten(plain_wheel(tmp_path), f"{INFO}/RECORD.jws", b"{}")
    assert told(path) == []


def test_a_plain_archive_is_no_wheel(tmp_path: Path) -> None:
    path = pack(tmp_path / "x.zip", {f"{INFO}/METADATA": b"Name: other\n", "a": b"b"})
    assert told(path) == []
