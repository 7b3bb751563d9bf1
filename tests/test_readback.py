"""Real pip and uv install from a server what was published, and what they must not take."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hostwheel.errors import BadInput, MachineLacks, Refused
from hostwheel.publish import readback
from hostwheel.publish.catalog import Entry
from hostwheel.publish.readback import Tools, clean, read_back
from tests.buckets import entry_of, needs, objects, serving, tiny_wheel, with_variant

VERSION = "0.3.36+cpu.avx2"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return tiny_wheel(tmp_path, VERSION)


def test_pip_and_uv_install_what_was_published(wheel: Path) -> None:
    """E8, E9, E11: a `+` in the name, both spellings, as S3's REST endpoint serves it."""
    published = with_variant(wheel, "cpu-avx2", needs())
    with serving(objects(published)) as server:
        for file, entry in published.items():
            read_back(server.url, entry, file, patience_s=0)
        asked = server.asked
    assert {path for path in asked if path.endswith("/") and "llama" in path} == {
        f"/{channel}{form}/llama-cpp-python/"
        for channel in ("", "cpu-avx2/")
        for form in ("simple", "simple-json")
    }
    assert any(path.endswith(".whl.metadata") for path in asked)
    assert all("+" not in path for path in asked)
