"""The gate that runs the suite: what it records, and when that counts as passed."""

from pathlib import Path

import pytest

from hostwheel.artifact.smoked import GROUPS
from hostwheel.errors import BadInput, StepFailed
from hostwheel.smoke import record, smoke
from hostwheel.smoke.smoke import Request
from tests.smokes import NOT_RUN, dist, outcomes, sha256, status, written

pytest_plugins = ["tests.smoke_fixtures"]

UNTIDY = """
import pytest

@pytest.fixture
def untidy():
    yield
    raise ValueError("something is left")

def test_untidy(untidy):
    pass
"""


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
