"""The machine that a suite ran on, as smoke.json names it."""

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from hostwheel.facts.cpuid import Cpu
from hostwheel.run import capture
from hostwheel.smoke.checks import Check
from hostwheel.smoke.emulate import find_emulator
from hostwheel.smoke.pythons import other_pythons


def describe(plan: Mapping[str, Any], checks: Sequence[Check]) -> Mapping[str, Any]:
    """CPU, system and emulator; the Pythons and CPU models with which a check passed."""
    passed = [check.id for check in checks if check.outcome == "passed"]
    ours = "{}.{}".format(*sys.version_info[:2])
    model = plan["host"]["cpu"]["emulate"]
    return {
        "cpu": Cpu().brand,
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "pythons": [ours] * bool(passed)
        + [name for name in other_pythons() if within(name, passed)],
        "emulator": emulator_version() if model else None,
        "models": [model] if model and within(model, passed) else [],
    }


def within(parameter: str, ids: Sequence[str]) -> bool:
    """A test was given this parameter, and no other."""
    return any(each.endswith(f"[{parameter}]") for each in ids)


def emulator_version() -> str:
    """The first line of what it says of itself."""
    return capture((find_emulator(), "--version")).partition("\n")[0]
