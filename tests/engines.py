"""The real engine for tests: the built wheel, importable here, with a small model.

Tests name it in `pytest_plugins`, and import nothing from it.
"""

import sys
from pathlib import Path

import pytest

from hostwheel.plan.defines import ROOT
from smoke.tinymodel import VOCABULARY, write_model
from tests.builds import Built, Installed


@pytest.fixture(scope="session")
def engine(cpu_avx2_installed: Installed) -> Installed:
    """`import llama_cpp` finds the built wheel from here on; this environment's packages win."""
    (packages,) = cpu_avx2_installed.prefix.glob("lib/python3*/site-packages")
    sys.path.append(str(packages))
    return cpu_avx2_installed


@pytest.fixture(scope="session")
def sources(cpu_avx2: Built) -> Path:
    """llama.cpp's folder in the source archive that the wheel was built from."""
    version = cpu_avx2.evidence["plan"]["source"]["version"]
    return ROOT / f"llama_cpp_python-{version}" / "src" / "vendor" / "llama.cpp"


@pytest.fixture(scope="session")
def tiny(engine: Installed, sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random llama of nine million F32 weights with a SentencePiece vocabulary."""
    path = tmp_path_factory.mktemp("tiny") / "tiny.gguf"
    write_model(path, sources / VOCABULARY)
    return path
