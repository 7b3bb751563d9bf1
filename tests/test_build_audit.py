"""What the real builds contain, as `hostwheel audit` reads it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.builds import Built

pytestmark = [pytest.mark.build, pytest.mark.timeout(5400)]


def audit(*argv: str | Path) -> tuple[int, list[dict[str, Any]]]:
    """Exit status, and the reports."""
    command = (sys.executable, "-m", "hostwheel", "audit", *map(str, argv), "--json")
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)["reports"]


def against_its_plan(built: Built) -> list[dict[str, Any]]:
    status, reports = audit(built.wheel, built.archive, "--plan", built.out / "build.json")
    open_ones = [
        finding
        for report in reports
        for finding in report["findings"]
        if finding["standing"] != "dismissed"
    ]
    assert (status, open_ones) == (0, [])
    return reports


def fitting(report: dict[str, Any]) -> set[str]:
    return {fit["host"] for fit in report["fits"] if fit["verdict"] == "fits"}


def test_cpu_avx2_is_what_was_planned_and_fits_avx2_hosts_only(cpu_avx2: Built) -> None:
    wheel, archive = against_its_plan(cpu_avx2)
    assert fitting(wheel) == fitting(archive)
    assert {"aws-g5", "x86-64-v3", "x86-64-v4"} <= fitting(wheel)
    assert not {"x86-64", "x86-64-v2", "sandybridge"} & fitting(wheel)


def test_cpu_any_is_what_was_planned_and_fits_every_host(cpu_any: Built) -> None:
    wheel, _ = against_its_plan(cpu_any)
    assert fitting(wheel) == {fit["host"] for fit in wheel["fits"]}


def test_cuda_draft_is_what_was_planned_and_knows_its_driver(a10g_draft: Built) -> None:
    wheel, _ = against_its_plan(a10g_draft)
    assert wheel["floor"]["driver"] == "580.65.06"
    assert "aws-g5" in fitting(wheel)
    assert "aws-g4dn" not in fitting(wheel)  # sm_75


def test_against_another_plan_it_is_refused(cpu_avx2: Built, a10g_draft: Built) -> None:
    status, _ = audit(cpu_avx2.wheel, "--plan", a10g_draft.out / "build.json")
    assert status == 1
