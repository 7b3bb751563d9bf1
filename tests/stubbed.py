"""Fixtures that put the stand-in for llama_cpp in its place. Named in `pytest_plugins`."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hostwheel.readout import LlamaCppBackend
from tests.stub_llama import Library, modules


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """What stands in, by the name under which it is imported."""
    _, made = modules()
    for name, module in made.items():
        monkeypatch.setitem(sys.modules, name, module)
    return made


@pytest.fixture
def package(stand_ins: dict[str, ModuleType]) -> ModuleType:
    return stand_ins["llama_cpp"]


@pytest.fixture
def lib(package: ModuleType) -> Library:
    library = package.llama_cpp
    assert isinstance(library, Library)
    return library


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A file for a model; the stand-in does not look further into it."""
    path = tmp_path / "ggml-model-Q4_1.gguf"
    path.write_bytes(b"GGUF")
    return path


@pytest.fixture
def backend(lib: Library, model: Path) -> Iterator[LlamaCppBackend]:
    with LlamaCppBackend(model, n_ctx=200, n_batch=16) as backend:
        yield backend
    assert lib.batches_alive == 0


@pytest.fixture
def llama(package: ModuleType) -> Any:
    """Somebody else's Llama."""
    return package.Llama("elsewhere.gguf", n_ctx=64, n_batch=8)
