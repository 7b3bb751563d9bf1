"""What each check of the suite came to, read from the JUnit file that pytest writes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias
from xml.etree import ElementTree

from hostwheel.errors import StepFailed

Outcome: TypeAlias = Literal["passed", "failed", "not run"]
OUTCOMES: dict[str, Outcome] = {"failure": "failed", "error": "failed", "skipped": "not run"}
WORST: tuple[Outcome, ...] = ("failed", "not run", "passed")


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One test by its id in pytest; `reason` is empty for one that passed."""

    id: str
    outcome: Outcome
    reason: str
    seconds: float


def read_checks(report: Path) -> tuple[Check, ...]:
    """The checks of a JUnit file, each once. StepFailed when pytest did not finish one."""
    try:
        cases = [read_case(case) for case in ElementTree.parse(report).iter("testcase")]
    except (OSError, ElementTree.ParseError) as error:
        raise StepFailed(f"pytest left no report of what it did: {error}") from None
    return tuple(each_once(cases))


def read_case(case: ElementTree.Element) -> Check:
    folder = case.get("classname", "").replace(".", "/")
    outcome, reason = verdict(case)
    return Check(
        id=f"{folder}.py::{case.get('name')}" if folder else case.get("name", ""),
        outcome=outcome,
        reason=reason,
        seconds=round(float(case.get("time", 0)), 2),
    )


def verdict(case: ElementTree.Element) -> tuple[Outcome, str]:
    """The worst of what pytest noted of a test."""
    noted = [(OUTCOMES[child.tag], child) for child in case if child.tag in OUTCOMES]
    if not noted:
        return "passed", ""
    outcome, child = min(noted, key=lambda each: WORST.index(each[0]))
    return outcome, child.get("message", "")


def each_once(checks: Iterable[Check]) -> Iterator[Check]:
    """A test that passed and then could not clean up is in the file twice; it failed."""
    worst: dict[str, Check] = {}
    for check in checks:
        other = worst.get(check.id, check)
        worst[check.id] = min(other, check, key=lambda each: WORST.index(each.outcome))
    yield from worst.values()


def all_well(checks: Iterable[Check]) -> bool:
    """Nothing failed, and something was shown: a suite that ran nothing has shown nothing."""
    outcomes = {check.outcome for check in checks}
    return "passed" in outcomes and "failed" not in outcomes
