"""The gate that runs the suite, with a small suite in the place of the real one."""

import argparse
import errno
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hostwheel.artifact.smoked import GROUPS
from hostwheel.errors import BadInput, MachineLacks, StepFailed
from hostwheel.smoke import machine, record, smoke
from hostwheel.smoke.command import add_smoke_arguments
from hostwheel.smoke.emulate import EMULATOR
from hostwheel.smoke.model import install_smollm2
from hostwheel.smoke.pythons import chosen, other_pythons
from hostwheel.smoke.smoke import Request
from tests.plans import need, plan_for

CONFTEST = """
def pytest_addoption(parser):
    for name in ("wheel", "archive", "plan", "source", "model"):
        parser.addoption(f"--{name}")
    parser.addoption("--gpu", action="store_true")
"""
WELL = """
import hashlib, json, pytest
from pathlib import Path

@pytest.mark.parametrize("name", ["wheel", "archive"])
def test_given_is_what_was_built(pytestconfig, name):
    given = Path(pytestconfig.getoption(name))
    built = json.loads(Path(pytestconfig.getoption("plan")).read_text())
    named = {each["name"]: each["sha256"] for each in built["artifacts"]}
    assert named[given.name] == hashlib.sha256(given.read_bytes()).hexdigest()
"""
NOT_RUN = """
import pytest

@pytest.fixture
def gpu():
    pytest.skip("gpu: not run: none here")

def test_gpu(gpu):
    assert False
"""
UNTIDY = """
import pytest

@pytest.fixture
def untidy():
    yield
    raise ValueError("something is left")

def test_untidy(untidy):
    pass
"""


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A suite that passes."""
    folder = tmp_path / "suite" / "smoke"
    folder.mkdir(parents=True)
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_well.py").write_text(WELL)
    for name in GROUPS:
        (folder / f"test_{name}.py").write_text("def test_it():\n    pass\n")
    monkeypatch.setattr(smoke, "suite", lambda: folder)
    return folder


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a build of cpu-avx2 left, on a machine that can run it and has all that is needed."""
    need("qemu-x86_64", "apt-get install qemu-user")
    monkeypatch.setattr(smoke, "missing", lambda features: ())
    monkeypatch.setattr(machine, "other_pythons", lambda: {"3.13": Path("/python")})
    plan, folder = plan_for("cpu-avx2").json(), tmp_path / "out" / "cpu-avx2"
    (folder / "dist").mkdir(parents=True)
    for name in (plan["wheel"], plan["archive"]):
        (folder / "dist" / name).write_text(f"this is {name}")
    artifacts = [{"name": path.name, "sha256": sha256(path)} for path in dist(folder)]
    said = {"plan": plan, "plan_hash": plan["hash"], "artifacts": artifacts}
    (folder / "build.json").write_text(json.dumps(said))
    return folder


@pytest.fixture
def request_all(out: Path, suite: Path, tmp_path: Path) -> Request:
    (tmp_path / "llama.cpp" / "models").mkdir(parents=True)
    model = tmp_path / "smollm2.gguf"
    model.touch()
    return Request(out=out, model=model, source=tmp_path / "llama.cpp")


def dist(out: Path) -> list[Path]:
    return sorted((out / "dist").iterdir())


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def written(out: Path) -> Mapping[str, Any]:
    evidence: Mapping[str, Any] = json.loads((out / "smoke.json").read_text())
    return evidence


def outcomes(evidence: Mapping[str, Any]) -> dict[str, str]:
    return {check["id"]: check["outcome"] for check in evidence["checks"]}


def status(request: Request, *more: str) -> int:
    """Exit status of the command line."""
    parser = argparse.ArgumentParser()
    add_smoke_arguments(parser)
    argv = ["cpu-avx2", "--out", request.out.parent, "--model", request.model]
    arguments = parser.parse_args([*map(str, argv), "--source", str(request.source), *more])
    return int(arguments.run(arguments))


def test_what_passed_is_recorded_for_exactly_the_tested_bytes(
    request_all: Request, suite: Path
) -> None:
    evidence = smoke.smoke(request_all)
    assert evidence == written(request_all.out)
    assert evidence["passed"]
    assert evidence["artifacts"] == {path.name: sha256(path) for path in dist(request_all.out)}
    assert outcomes(evidence) == {
        "smoke/test_well.py::test_given_is_what_was_built[wheel]": "passed",
        "smoke/test_well.py::test_given_is_what_was_built[archive]": "passed",
        **{f"smoke/test_{name}.py::test_it": "passed" for name in GROUPS},
    }
    assert evidence["suite"] == {
        "sha256": record.suite_hash(suite),
        "files": {f"smoke/test_{name}.py": 1 for name in GROUPS} | {"smoke/test_well.py": 2},
    }
    assert "qemu-x86_64 version" in evidence["machine"]["emulator"]


def test_the_command_says_it_in_its_exit_status(
    request_all: Request, suite: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(request_all) == 0
    assert capsys.readouterr().out == "10 passed, 0 failed, 0 not run\n"
    (suite / "test_bad.py").write_text("def test_bad():\n    assert 1 == 2\n")
    assert status(request_all) == 1
    said = capsys.readouterr().out
    assert said.startswith("failed: smoke/test_bad.py::test_bad: assert 1 == 2")
    assert not written(request_all.out)["passed"]


def test_what_is_skipped_was_not_run_and_did_not_pass(request_all: Request, suite: Path) -> None:
    (suite / "test_gpu.py").write_text(NOT_RUN)
    evidence = smoke.smoke(request_all)
    check = next(each for each in evidence["checks"] if "gpu" in each["id"])
    assert (check["outcome"], check["reason"]) == ("not run", "gpu: not run: none here")
    assert list(smoke.summary(evidence)) == [
        "not run (1): gpu: not run: none here",
        "10 passed, 0 failed, 1 not run",
    ]


def test_a_suite_that_ran_nothing_has_not_passed(request_all: Request, suite: Path) -> None:
    for file in suite.glob("test_*.py"):
        file.write_text(NOT_RUN)
    assert status(request_all) == 3
    assert not written(request_all.out)["passed"]


@pytest.mark.parametrize("fault", [UNTIDY, "import nothing_of_that_name\n"])
def test_what_cannot_clean_up_or_start_has_failed(
    request_all: Request, suite: Path, fault: str
) -> None:
    (suite / "test_fault.py").write_text(fault)
    evidence = smoke.smoke(request_all)
    assert not evidence["passed"]
    assert sorted(outcomes(evidence).values()) == ["failed", *["passed"] * 10]


def test_a_suite_that_dies_leaves_no_evidence(request_all: Request, suite: Path) -> None:
    (suite / "test_dies.py").write_text("import os\n\ndef test_dies():\n    os._exit(0)\n")
    with pytest.raises(StepFailed, match="left no report"):
        smoke.smoke(request_all)
    (suite / "test_dies.py").write_text("import os\n\ndef test_dies():\n    os.abort()\n")
    with pytest.raises(StepFailed, match="did not run the suite"):
        smoke.smoke(request_all)
    assert not (request_all.out / "smoke.json").exists()


def test_a_suite_that_dies_leaves_no_older_evidence(request_all: Request, suite: Path) -> None:
    smoke.smoke(request_all)
    assert written(request_all.out)["passed"]
    (suite / "test_dies.py").write_text("import os\n\ndef test_dies():\n    os.abort()\n")
    with pytest.raises(StepFailed):
        status(request_all, "--only", "dies")
    assert written(request_all.out)["passed"]
    with pytest.raises(StepFailed):
        smoke.smoke(request_all)
    assert not (request_all.out / "smoke.json").exists()


def test_what_is_skipped_without_an_excuse_is_not_proved(
    request_all: Request, suite: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (suite / "test_numbers.py").write_text(NOT_RUN)
    assert status(request_all) == 3
    assert not written(request_all.out)["passed"]
    said = capsys.readouterr().out
    assert "not proved: smoke/test_numbers.py: no check of it passed\n" in said


def test_pythons_and_models_are_those_with_which_something_passed(
    request_all: Request, suite: Path
) -> None:
    text = """
import pytest

@pytest.mark.parametrize("python", ["3.12", "3.13"])
def test_another_python(python):
    {}

@pytest.mark.parametrize("emulated_model", ["EPYC-Rome"])
def test_emulated(emulated_model):
    {}
"""
    (suite / "test_install.py").write_text(text.format("pass", "pass"))
    said = smoke.smoke(request_all)["machine"]
    assert (said["pythons"][1:], said["models"]) == (["3.13"], ["EPYC-Rome"])
    (suite / "test_install.py").write_text(text.format("assert False", "assert False"))
    said = smoke.smoke(request_all)["machine"]
    assert (said["pythons"][1:], said["models"]) == ([], [])


def test_a_part_of_the_suite_is_no_evidence(request_all: Request, suite: Path) -> None:
    (suite / "test_other.py").write_text("def test_other():\n    assert False\n")
    (request_all.out / "smoke.log").write_text("of the whole run")
    assert status(request_all, "--only", "well") == 0
    assert not (request_all.out / "smoke.json").exists()
    assert (request_all.out / "smoke.log").read_text() == "of the whole run"
    assert "2 passed" in (request_all.out / "smoke-only.log").read_text()
    with pytest.raises(BadInput, match=r"no file 'wall': it has archive, .*other, .*well"):
        status(request_all, "--only", "wall")


def test_other_bytes_than_those_built_are_not_tested(request_all: Request) -> None:
    wheel = next(path for path in dist(request_all.out) if path.suffix == ".whl")
    wheel.write_text("something else")
    with pytest.raises(BadInput, match="is not what was built: sha256"):
        smoke.smoke(request_all)
    wheel.unlink()
    with pytest.raises(BadInput, match="build it again"):
        smoke.smoke(request_all)
    (request_all.out / "build.json").unlink()
    with pytest.raises(
        BadInput,
        match=r"no build in .*cpu-avx2: build.json: No such file or directory;"
        r" `hostwheel build cpu-avx2` makes one$",
    ):
        status(request_all)


def test_what_is_no_recipe_is_said_to_be_none(request_all: Request) -> None:
    parser = argparse.ArgumentParser()
    add_smoke_arguments(parser)
    arguments = parser.parse_args(["nosuch", "--out", str(request_all.out.parent)])
    with pytest.raises(BadInput, match=r"^no recipe 'nosuch'"):
        arguments.run(arguments)


def test_a_plan_that_was_changed_after_the_build_is_refused(request_all: Request) -> None:
    """Without its CPU model, emulation would silently not be asked for."""
    said = json.loads((request_all.out / "build.json").read_text())
    said["plan"]["host"]["cpu"]["emulate"] = None
    (request_all.out / "build.json").write_text(json.dumps(said))
    with pytest.raises(BadInput, match=r"build.json: its plan was changed.*build it again"):
        smoke.smoke(request_all)


def test_no_room_for_the_copies_is_what_the_machine_lacks(
    request_all: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(MachineLacks, match=r"no room for a copy of .* TMPDIR"):
        smoke.smoke(request_all)


def test_evidence_that_cannot_be_written_leaves_nothing(
    request_all: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fresh: Path, target: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(target))

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        record.write_evidence(request_all.out, {})
    assert not list(request_all.out.glob(".smoke*"))


def test_without_the_emulator_nothing_is_run(
    request_all: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    with pytest.raises(MachineLacks, match=f"{EMULATOR}.*apt-get install qemu-user") as lacking:
        status(request_all)
    assert lacking.value.exit_code == 3
    assert not (request_all.out / "smoke.json").exists()


def test_what_the_suite_imports_is_asked_for(
    request_all: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smoke, "NEEDED", ("pytest", "no_such_thing"))
    with pytest.raises(MachineLacks, match=r"needs no-such-thing .*uv pip install"):
        smoke.smoke(request_all)


def test_without_the_sources_of_llama_cpp_it_says_where_they_come_from(
    request_all: Request, tmp_path: Path
) -> None:
    request = Request(out=request_all.out, model=request_all.model, source=tmp_path)
    with pytest.raises(MachineLacks, match="give --source"):
        smoke.smoke(request)


def test_on_a_cpu_that_the_build_is_not_for_nothing_is_run(
    request_all: Request, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(smoke, "missing", lambda features: ("avx512f",))
    assert status(request_all) == 3
    assert "not run here: this CPU lacks avx512f" in capsys.readouterr().out
    evidence = written(request_all.out)
    assert not evidence["passed"]
    assert outcomes(evidence) == {"smoke": "not run"}


def test_on_such_a_cpu_what_passed_of_the_same_files_stays(
    request_all: Request, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    smoke.smoke(request_all)
    before = written(request_all.out)
    monkeypatch.setattr(smoke, "missing", lambda features: ("avx512f",))
    assert status(request_all) == 3
    assert "smoke.json stays: it is of the same files" in capsys.readouterr().err
    assert written(request_all.out) == before
    (request_all.out / "smoke.json").write_text(json.dumps({**before, "artifacts": {}}))
    assert status(request_all) == 3
    assert not written(request_all.out)["passed"]


def test_a_model_that_is_not_there_is_bad_input(request_all: Request) -> None:
    request = Request(out=request_all.out, model=Path("/no/model"), source=request_all.source)
    with pytest.raises(BadInput, match="there is no model /no/model"):
        smoke.smoke(request)


def test_the_model_that_cannot_be_had_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(MachineLacks, match="give --model FILE"):
        install_smollm2(tmp_path / "model")


def python(version: str, path: str, implementation: str = "cpython") -> dict[str, Any]:
    """As uv lists one."""
    major, minor = map(int, version.split("."))
    return {
        "version_parts": {"major": major, "minor": minor},
        "implementation": implementation,
        "variant": "default",
        "path": path,
    }


def test_of_the_pythons_one_of_each_version_is_taken() -> None:
    ours = "{}.{}".format(*sys.version_info[:2])
    found = [python("3.13", "/a"), python("3.13", "/b"), python(ours, "/c"), python("3.7", "/d")]
    assert chosen([*found, python("3.9", "/e"), python("3.8", "/f", "pypy")]) == {
        "3.9": Path("/e"),
        "3.13": Path("/a"),
    }


def test_every_python_found_is_there() -> None:
    assert all(os.access(path, os.X_OK) for path in other_pythons().values())


def test_the_suite_is_found() -> None:
    assert (smoke.suite() / "test_cpu.py").is_file()
    assert smoke.find_check("cpu") == smoke.suite() / "test_cpu.py"
