"""`hostwheel audit` as a user has it: what is printed and written, and the exit status."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import pytest

from hostwheel.__main__ import main
from hostwheel.audit import machine
from hostwheel.audit.audit import judge
from hostwheel.audit.checks import CHECKS
from hostwheel.audit.planfile import read_plan
from hostwheel.audit.show import show_report
from hostwheel.audit.target import known_hosts
from hostwheel.errors import BadInput
from hostwheel.plan.recipe import recipe_names
from hostwheel.plan.show import people
from tests.audits import (
    G5,
    NOTHING,
    artifact,
    function,
    library,
    native_file,
    plain_wheel,
    planned_wheel,
    using,
)
from tests.plans import AVX512, ROOT, plan_for, wheel_files

PLAN = plan_for("cpu-avx2")


@pytest.fixture(autouse=True)
def _in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    """What is in a wheel of the AVX2 recipe."""
    return wheel_files(PLAN, tmp_path_factory.mktemp("planned"))


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return wheel(tmp_path / "good", "addps %xmm0, %xmm1")


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    return wheel(tmp_path / "bad", AVX512)


def wheel(folder: Path, instruction: str) -> Path:
    path = library(folder / "libx.so", function("kernel", instruction))
    return plain_wheel(folder, {"pkg/libx.so": path.read_bytes()})


def plan_file(folder: Path) -> Path:
    path = folder / "plan.json"
    path.write_text(json.dumps(PLAN.json()))
    return path


def run(*argv: object) -> int:
    return main(["audit", *map(str, argv)])


# exit status


def test_a_host_that_it_fits(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(good, "--host", "aws-g5") == 0
    assert capsys.readouterr().out.startswith(f"{good.name} fits aws-g5\n")


def test_a_host_that_it_does_not_fit(bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(bad, "--host", "aws-g5") == 1
    text = capsys.readouterr().out
    assert text.startswith(f"{bad.name} does not fit aws-g5\n")
    for part in (
        "ISA001",
        "pkg/libx.so",
        "avx512f",
        "first in kernel at 0x",
        "vpaddd zmm0,zmm0,zmm0",
    ):
        assert part in text
    assert "→ take a build for this CPU" in text


def test_without_a_host_there_is_a_table(bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(bad) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    for host in known_hosts(ROOT / "recipes"):
        fits = "avx512f" in host.cpu.features
        assert rows[host.name].split()[1] == ("yes" if fits else "no")
        assert ("libx.so needs avx512f" in rows[host.name]) == (not fits)


def test_what_is_wrong_on_every_host_is_refused_without_one(good: Path) -> None:
    """D9"""
    assert run(good) == 0
    assert run(good.rename(good.with_name(good.name.replace("1.0", "1.1")))) == 1


def test_undecided_is_no_refusal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = library(tmp_path / "libx.so", function("f", AVX512), function("asks", "cpuid"))
    assert run(path, "--host", "aws-g5") == 0
    assert capsys.readouterr().out.startswith("libx.so is not decided for aws-g5\n")


@pytest.mark.parametrize("kind", ["text", "truncated", "missing", "nested"])
def test_what_cannot_be_read(
    tmp_path: Path, bad: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = {
        "text": tmp_path / "README.md",
        "truncated": tmp_path / "bad" / "libx.so",
        "missing": tmp_path / "nowhere.whl",
        "nested": tmp_path / "bad",
    }[kind]
    if kind == "text":
        path.write_text("# read me\n")
    if kind == "truncated":
        path.write_bytes(path.read_bytes()[:-200])
    assert run(path, "--host", "aws-g5") == 2
    captured = capsys.readouterr()
    assert (captured.out, str(path) in captured.err or path.name in captured.err) == ("", True)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ((), "name a FILE"),
        (("x", "--host", "aws-g55"), "did you mean 'aws-g5'"),
        (("--explain", "ISA01"), "did you mean 'ISA0"),
        (("x", "y", "--html", "z"), "--html takes one FILE"),
        (("x", "--symbols", "nowhere"), "nowhere: no such folder"),
        (("x", "--plan", "README.md"), "holds no plan"),
    ],
)
def test_what_a_user_gets_wrong(
    argv: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*argv) == 2
    assert message in capsys.readouterr().err


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    for check in CHECKS:
        assert run("--explain", check.id.lower()) == 0
        title, empty, *reason = capsys.readouterr().out.splitlines()
        assert (title, empty) == (f"{check.id}: {check.title}", "")
        assert len(reason) >= 3
        assert check.title.endswith(".")


# JSON and pages


def test_json(bad: Path, good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(bad, good, "--host", "aws-g5", "--json") == 1
    told = json.loads(capsys.readouterr().out)
    first, second = told["reports"]
    assert (told["schema"], first["verdict"], second["verdict"]) == (1, "unfit", "fits")
    assert (len(first["sha256"]), first["target"]) == (64, "aws-g5")
    (finding,) = first["findings"]
    assert (finding["feature"], finding["function"], finding["count"]) == ("avx512f", "kernel", 1)


def test_files_are_written_for_each_artifact(bad: Path, good: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    assert run(good, bad, "--out", out) == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "audit-2.html",
        "audit.html",
        "audit.json",
    ]
    assert good.name in (out / "audit.html").read_text()
    assert len(json.loads((out / "audit.json").read_text())["reports"]) == 2
    assert run(good, "--html", tmp_path / "page.html") == 0
    assert good.name in (tmp_path / "page.html").read_text()


def test_a_folder_that_cannot_be_written(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert run(good, "--out", tmp_path / "file") == 3
    assert "name another" in capsys.readouterr().err


def test_it_is_readable_in_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    many = using(native_file(), *(f"avx512_{number}" for number in range(40)))
    hosts = known_hosts(ROOT / "recipes")
    console = people()
    console.width = 80
    show_report(judge(artifact(many), G5, hosts), console)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


# against a plan


def test_a_plan_from_either_file(
    tmp_path: Path, files: Mapping[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    path = planned_wheel(tmp_path, PLAN, files)
    build = tmp_path / "build.json"
    build.write_text(json.dumps({"plan": PLAN.json(), "plan_hash": PLAN.hash}))
    for plan in (plan_file(tmp_path), build):
        assert run(path, "--plan", plan) == 0
        assert capsys.readouterr().out.startswith(f"{path.name} fits plan cpu-avx2\n")


@pytest.mark.parametrize("recipe", recipe_names(ROOT / "recipes"))
def test_a_plan_survives_its_json(tmp_path: Path, recipe: str) -> None:
    plan, path = plan_for(recipe), tmp_path / "plan.json"
    path.write_text(json.dumps(plan.json()))
    assert read_plan(path) == plan


def changed(**changes: Any) -> str:
    return json.dumps({**PLAN.json(), **changes})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "holds no plan"),
        ("[]", "holds no plan"),
        ("{}", "holds no plan"),
        (changed(backends="none"), "where list was expected"),
        (changed(host=None), "holds no plan"),
        (changed(label="cpu.avx512"), "its content has"),
    ],
)
def test_a_plan_that_is_none(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=message):
        read_plan(path)


# this machine


def test_this_machine(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(good, "--this-machine") == 0
    assert "fits this machine" in capsys.readouterr().out
    here = machine.this_machine()
    assert here.glibc.startswith("2.")
    assert here.glibcxx.startswith("3.4.")
    assert "sse2" in here.cpu.features


def test_another_machine_is_refused(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert run(good, "--this-machine") == 3


def test_several_files_of_the_same_bytes_are_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    one = using(native_file("pkg/libx.so"), "avx512f")
    two = replace(one, member=replace(one.member, name="pkg/libx.so.0"))
    show_report(judge(artifact(one, two), G5, ()), people())
    text = capsys.readouterr().out
    assert text.count("ISA001") == 1
    assert "  pkg/libx.so\n  pkg/libx.so.0\n" in text


# what a terminal, a pipe and a disk do with it


def test_names_give_no_orders_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    wicked = "pkg/\x1b[2J\x1b]0;x\x07\nRefused\u202e.so"
    asking = replace(native_file("pkg/a\x1b.so"), code=None)
    file = using(native_file(wicked), "avx512f", function="f\x1b[1m", text="nop\r")
    quiet = using(native_file("pkg/\x1bq.so"), "avx512f", evidence="because\x1b")
    made = artifact(file, asking, quiet, name="\x1b[31mx-1.0-py3-none-any.whl")
    for target in (G5, NOTHING):
        show_report(judge(made, target, known_hosts(ROOT / "recipes")), people())
        text = capsys.readouterr().out
        assert not {each for each in text if not each.isprintable()} - {"\n"}
        assert "pkg/\\x1b[2J\\x1b]0;x\\x07\\nRefused\\u202e.so" in text or target is NOTHING
        assert text.startswith("\\x1b[31mx-1.0")


def test_an_error_gives_no_orders_to_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "\x1b[2J.whl"
    path.write_bytes(b"PK\3\4")
    assert run(path) == 2
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert "\\x1b[2J.whl" in said


def test_lines_of_the_table_end_with_their_text(
    bad: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(bad) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "Known hosts" in lines
    assert [line for line in lines if line != line.rstrip()] == []


def test_one_that_cannot_be_read_keeps_the_others(
    bad: Path, good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost, out = tmp_path / "lost.whl", tmp_path / "out"
    assert run(bad, lost, good, "--host", "aws-g5", "--json", "--out", out) == 2
    said = capsys.readouterr()
    names = [report["artifact"] for report in json.loads(said.out)["reports"]]
    assert names == [bad.name, good.name]
    assert said.err.count(str(lost)) == 1
    assert (out / "audit-2.html").is_file()


@pytest.mark.parametrize("argv", [("recipes",), ("audit", "FILE"), ("audit", "FILE", "--json")])
def test_a_full_disk_is_one_line(argv: tuple[str, ...], good: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = started(argv, good, full)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert "cannot write: No space left on device" in done.stderr


@pytest.mark.parametrize("argv", [("recipes",), ("audit", "FILE"), ("audit", "FILE", "--json")])
def test_a_closed_pipe_ends_it_as_its_signal_does(argv: tuple[str, ...], good: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as nobody:
        done = started(argv, good, nobody)
    assert (done.returncode, done.stderr) == (141, "")


def started(argv: Sequence[str], file: Path, stdout: IO[str]) -> subprocess.CompletedProcess[str]:
    named = [str(file) if each == "FILE" else each for each in argv]
    command = (sys.executable, "-m", "hostwheel", *named)
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True)


def test_nothing_native_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    show_report(judge(artifact(), NOTHING, ()), people())
    assert "0 native files" in capsys.readouterr().out
