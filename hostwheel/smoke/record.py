"""smoke.json: what the suite's checks came to, for which bytes, on which machine."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hostwheel import __version__
from hostwheel.artifact.smoked import count_by_file, unproved
from hostwheel.smoke.built import Built
from hostwheel.smoke.checks import Check, all_well
from hostwheel.smoke.machine import describe

NAME = "smoke.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """What pytest did: `suite` is the folder, `collected` the ids of its checks."""

    suite: Path
    whole: bool
    collected: Sequence[str]
    checks: Sequence[Check]


def evidence_of(built: Built, run: Run) -> Mapping[str, Any]:
    """What smoke.json holds. A part of the suite passes where nothing of it failed."""
    checks = [asdict(check) for check in run.checks]
    files = count_by_file(run.collected)
    well = all_well(run.checks)
    lacking = list(unproved(checks, files, built.plan)) if well and run.whole else []
    return {
        "schema": 1,
        "tool": f"hostwheel {__version__}",
        "recipe": built.plan["recipe"],
        "artifacts": dict(built.artifacts),
        "passed": well and not lacking,
        "unproved": lacking,
        "machine": describe(built.plan, run.checks),
        "suite": {"sha256": suite_hash(run.suite), "files": dict(sorted(files.items()))},
        "checks": checks,
    }


def suite_hash(suite: Path) -> str:
    """Of the names and bytes of its modules, so that it says which suite was run."""
    digest = hashlib.sha256()
    for file in sorted(suite.glob("*.py")):
        digest.update(f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def write_evidence(out: Path, evidence: Mapping[str, Any]) -> None:
    fresh = out / f".{NAME}.new"
    try:
        fresh.write_text(json.dumps(evidence, indent=1) + "\n", encoding="utf-8")
        fresh.replace(out / NAME)
    finally:
        fresh.unlink(missing_ok=True)


def take_away(out: Path) -> None:
    """A run that is killed must not leave what an earlier one said."""
    (out / NAME).unlink(missing_ok=True)


def has_passed(out: Path, built: Built) -> bool:
    """There is a smoke.json of exactly these artifacts, and it says passed."""
    try:
        said = json.loads((out / NAME).read_text(encoding="utf-8"))
        return said["passed"] is True and said["artifacts"] == built.artifacts
    except (OSError, ValueError, KeyError, TypeError):
        return False
