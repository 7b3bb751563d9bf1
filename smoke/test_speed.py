"""The build is as fast as ggml compiled for this very CPU, where that is the same thing.

Where the CPU can do more than the build is meant to use, a native build would be faster, and
nothing follows from it.
"""

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from smoke.installed import Installed
from smoke.speed import (
    build_native,
    difference,
    measured_pairs,
    missing_tools,
    native_features,
    ratios,
    too_slow,
)


def cache_folder() -> Path:
    """Where a native build stays, since it takes two minutes."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hostwheel"


@pytest.fixture(scope="module")
def native(plan: Mapping[str, Any]) -> frozenset[str]:
    """What ggml would compile in here; the test is not run where the plan says otherwise."""
    if missing := missing_tools():
        pytest.skip(f"not run here: it needs {', '.join(missing)}")
    found = native_features()
    if reason := difference(plan["features"], found):
        pytest.skip(f"not run here: {reason}, so it is not what was planned")
    return found


@pytest.fixture
def native_libraries(
    native: frozenset[str],
    plan: Mapping[str, Any],
    installed: Installed,
    llama_cpp_source: Path,
    tmp_path: Path,
) -> Path:
    """The wheel's libraries with a native libggml-cpu.so among them."""
    key = hashlib.sha256(f"{plan['hash']} {sorted(native)}".encode()).hexdigest()[:16]
    built = build_native(llama_cpp_source, plan["defines"], cache_folder() / f"native-{key}")
    copied = Path(shutil.copytree(installed.package / "lib", tmp_path / "lib"))
    shutil.copy(built, copied / built.name)
    return copied


@pytest.mark.timeout(1800)
def test_speed_floor(native_libraries: Path, installed: Installed, smollm2: Path) -> None:
    pairs = measured_pairs(installed.package / "lib", native_libraries, smollm2)
    assert too_slow(ratios(pairs)) == []
