"""What the suite runs with."""

import os
import sys
from pathlib import Path
from typing import Any

from hostwheel.smoke import smoke
from hostwheel.smoke.pythons import chosen, other_pythons


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
