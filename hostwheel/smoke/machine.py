"""The machine that a suite ran on, as smoke.json names it."""

import os
import platform
import sys
from collections.abc import Mapping
from typing import Any

from hostwheel.facts.cpuid import Cpu
from hostwheel.run import capture
from hostwheel.smoke.emulate import find_emulator
from hostwheel.smoke.pythons import other_pythons


def describe(plan: Mapping[str, Any]) -> Mapping[str, Any]:
    """CPU, system, Pythons that the wheel was tried with, emulator and the models it played."""
    model = plan["host"]["cpu"]["emulate"]
    ours = "{}.{}".format(*sys.version_info[:2])
    return {
        "cpu": Cpu().brand,
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "pythons": [ours, *other_pythons()],
        "emulator": emulator_version() if model else None,
        "models": [model] if model else [],
    }


def emulator_version() -> str:
    """The first line of what it says of itself."""
    return capture((find_emulator(), "--version")).partition("\n")[0]
