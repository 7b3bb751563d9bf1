"""What the tests of the smoke gate ask of a build and of its evidence."""

import argparse
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hostwheel.smoke.command import add_smoke_arguments
from hostwheel.smoke.smoke import Request

NOT_RUN = """
import pytest

@pytest.fixture
def gpu():
    pytest.skip("gpu: not run: none here")

def test_gpu(gpu):
    assert False
"""


def dist(out: Path) -> list[Path]:
    return sorted((out / "dist").iterdir())


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def written(out: Path) -> Mapping[str, Any]:
    evidence: Mapping[str, Any] = json.loads((out / "smoke.json").read_text())
    return evidence


def outcomes(evidence: Mapping[str, Any]) -> dict[str, str]:
    return {check["id"]: check["outcome"] for check in evidence["checks"]}


def status(request: Request, *more: str) -> int:
    """Exit status of the command line."""
    parser = argparse.ArgumentParser()
    add_smoke_arguments(parser)
    argv = ["cpu-avx2", "--out", request.out.parent, "--model", request.model]
    arguments = parser.parse_args([*map(str, argv), "--source", str(request.source), *more])
    return int(arguments.run(arguments))
