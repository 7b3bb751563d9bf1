"""The Pythons of this machine, as uv finds them. None is downloaded."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hostwheel.run import capture

OLDEST = (3, 8)  # what llama-cpp-python asks for
PYENV = "versions/*/bin"  # below PYENV_ROOT; its shims on PATH start one version only


def other_pythons() -> Mapping[str, Path]:
    """An interpreter for each version ("3.13") that a wheel is for but our own; oldest first."""
    argv = (sys.executable, "-m", "uv", "python", "list", "--only-installed")
    said = capture((*argv, "--output-format", "json"), env=searching(os.environ))
    return chosen(json.loads(said))


def searching(ours: Mapping[str, str]) -> dict[str, str]:
    """The environment `ours` with pyenv's versions on PATH, and no downloads."""
    root = Path(ours.get("PYENV_ROOT") or Path.home() / ".pyenv")
    path = os.pathsep.join((*map(str, sorted(root.glob(PYENV))), ours.get("PATH", "")))
    return {**ours, "PATH": path, "UV_PYTHON_DOWNLOADS": "never"}


def chosen(found: list[dict[str, Any]]) -> Mapping[str, Path]:
    """Of uv's list, the first for each minor version."""
    pythons: dict[tuple[int, int], Path] = {}
    for each in found:
        version = (each["version_parts"]["major"], each["version_parts"]["minor"])
        usual = each["implementation"] == "cpython" and each["variant"] == "default"
        if usual and version >= OLDEST and version != sys.version_info[:2]:
            pythons.setdefault(version, Path(each["path"]))
    return {f"{major}.{minor}": pythons[major, minor] for major, minor in sorted(pythons)}
