"""`hostwheel parity` end to end: SmolLM2 in float32 through llama.cpp and through transformers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builds import CHECKOUT, Built, Installed, install

pytest_plugins = ("tests.engines",)
pytestmark = [
    *(pytest.mark.build, pytest.mark.engine, pytest.mark.network),
    pytest.mark.timeout(1800),
]


@pytest.fixture(scope="module")
def both(cpu_avx2: Built, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """An environment with hostwheel, our wheel, and transformers with torch for the CPU."""
    made = install(cpu_avx2.wheel, tmp_path_factory.mktemp("parity"))
    # By pip and not uv, which takes several GB of CUDA with torch.
    pip = (sys.executable, "-m", "pip", "--python", made.prefix / "bin" / "python")
    subprocess.run((*pip, "install", "--quiet", "-e", f"{CHECKOUT}[parity]"), check=True)
    return made


@pytest.fixture(scope="module")
def dequantized(both: Installed, smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "SmolLM2-135M-Instruct.F32.gguf"
    done = both.run("llama-quantize", "--allow-requantize", smollm2, path, "F32")
    assert done.returncode == 0, done.stderr
    return path


def test_smollm2_agrees_with_transformers(both: Installed, dequantized: Path) -> None:
    done = both.run(
        *("hostwheel", "parity", "--gguf", dequantized, "--at-most", "1e-4", "--json"), timeout=1500
    )
    assert done.returncode == 0, done.stderr
    assert str(dequantized.parent) not in done.stdout
    said = json.loads(done.stdout)
    exact, rounded, flash = said["compared"]
    assert exact["argmax"] == "15/15"
    assert exact["vocabulary"]["largest"] <= 1e-4
    for other in (rounded, flash):  # an F16 cache shows, so the comparison sees what it should
        assert 1e-3 < other["vocabulary"]["largest"] < 0.1
    assert said["versions"]["llama.cpp"]["label"] == "cpu.avx2"


def test_another_model_is_refused(both: Installed, dequantized: Path, tiny: Path) -> None:
    done = both.run("hostwheel", "parity", "--gguf", tiny, "--model", dequantized)
    assert done.returncode == 1, done.stderr
    assert "have different tokenizers" in done.stderr
