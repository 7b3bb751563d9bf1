"""Recipe folders as a build, a real audit and the smoke tests leave them, of stand-ins."""

import dataclasses
import json
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from hostwheel.__main__ import main
from hostwheel.artifact.contents import sha256
from hostwheel.artifact.smoked import GROUPS, count_by_file
from hostwheel.build.archive import write_archive
from hostwheel.errors import Refused
from hostwheel.plan.plan import Plan
from hostwheel.publish.evidence import read_evidence
from tests.audits import planned_wheel
from tests.plans import plan_for, wheel_files

PASSED = {"id": "smoke/test_load.py::test_load", "outcome": "passed", "reason": "", "seconds": 1.0}
GROUPS_PASSED = tuple({**PASSED, "id": f"smoke/test_{name}.py::test_it"} for name in GROUPS)
NOT_RUN = {**PASSED, "id": "smoke/test_gpu.py::test_gpu", "outcome": "not run", "reason": "no GPU"}


@cache
def members() -> Mapping[str, bytes]:
    """What is in a wheel of the AVX2 recipe: a dozen small libraries and programs, compiled."""
    return wheel_files(plan_for("cpu-avx2"), Path(mkdtemp(prefix="hostwheel-members-")))


@cache
def template() -> Path:
    """One folder that passes; tests take copies of it."""
    folder = Path(mkdtemp(prefix="hostwheel-proved-"))
    return fill(folder / "cpu-avx2", plan_for("cpu-avx2"), members())


def proved(folder: Path) -> Path:
    """out/cpu-avx2 with wheel, archive and evidence that passes."""
    return shutil.copytree(template(), folder / "out" / "cpu-avx2")


def fill(out: Path, plan: Plan, files: Mapping[str, bytes]) -> Path:
    dist = out / "dist"
    wheel = planned_wheel(dist, plan, files)
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(out / "unpacked")
    write_archive(plan, out / "unpacked", dist / plan.archive)
    shutil.rmtree(out / "unpacked")
    write_build(out, plan)
    audit_again(out)
    write_smoke(out)
    return out


def write_build(out: Path, plan: Plan) -> None:
    artifacts = [
        {"name": file.name, "sha256": sha256(file), "bytes": file.stat().st_size}
        for file in sorted((out / "dist").iterdir())
    ]
    said = {"schema": 1, "recipe": plan.recipe, "plan": plan.json(), "plan_hash": plan.hash}
    made_with = {"compiler": "12.2.0", "toolkit": None}
    write(out / "build.json", {**said, **made_with, "artifacts": artifacts})


def audit_again(out: Path) -> int:
    """As nox does it: the wheel first."""
    files = sorted((out / "dist").iterdir(), key=lambda file: file.suffix != ".whl")
    against = ("--plan", str(out / "build.json"), "--out", str(out))
    return main(["audit", *map(str, files), *against])


def write_smoke(out: Path, checks: Sequence[Mapping[str, Any]] = (PASSED, NOT_RUN)) -> None:
    """As a whole run leaves it: each group of the suite passed, and `checks` besides."""
    build = json.loads((out / "build.json").read_text())
    told = (*GROUPS_PASSED, *checks)
    said = {
        "schema": 1,
        "recipe": build["recipe"],
        "artifacts": {each["name"]: each["sha256"] for each in build["artifacts"]},
        "passed": all(check["outcome"] != "failed" for check in told),
        "suite": {"sha256": "0" * 64, "files": count_by_file(check["id"] for check in told)},
        "checks": list(told),
    }
    write(out / "smoke.json", said)


def write(file: Path, content: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(content))


def change(file: Path, **changes: Any) -> None:
    """Top-level keys of a JSON file."""
    write(file, {**json.loads(file.read_text()), **changes})


def replanned(out: Path, **changes: Any) -> Plan:
    """The same folder under a changed plan, whose hash holds."""
    plan = dataclasses.replace(plan_for("cpu-avx2"), **changes)
    write_build(out, plan)
    return plan


def refusal(out: Path) -> str:
    with pytest.raises(Refused) as refused:
        read_evidence(out)
    return str(refused.value)


def read(file: Path) -> Any:
    return json.loads(file.read_text())


def report_of(out: Path) -> dict[str, Any]:
    """The wheel's report."""
    found: dict[str, Any] = read(out / "audit.json")["reports"][0]
    return found
