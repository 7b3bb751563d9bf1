"""Installed as people do it: pip and uv, over an older wheel, beside torch, on other Pythons."""

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from hostwheel.smoke.pythons import other_pythons
from smoke.installed import Artifact, Installed, fresh_environment, uv_install
from smoke.stub import LEFTOVER, write_stub

TORCH = "torch==2.13.0+cpu"  # with its label, so that no build with gigabytes of CUDA is taken
NO_TORCH = "pip's index has no CPU build of torch: PIP_EXTRA_INDEX_URL=…pytorch.org/whl/cpu"

# The logits after a sentence, digested: equal wherever they are equal to the last bit.
ASK = """
import ctypes, hashlib, sys
import llama_cpp

def ask(model):
    llm = llama_cpp.Llama(model_path=model, n_ctx=64, n_threads=2, verbose=False)
    llm.eval(llm.tokenize(b"The capital of France is"))
    row = llama_cpp.llama_get_logits_ith(llm.ctx, -1)
    return hashlib.sha256(ctypes.string_at(row, 4 * llm.n_vocab())).hexdigest()
"""
HERE = ASK + "print(ask(sys.argv[1]))"
IN_CHILDREN = (
    ASK
    + """
import multiprocessing
if __name__ == "__main__":
    print(ask(sys.argv[1]))
    for method in "spawn", "fork":
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(*pool.map(ask, sys.argv[1:]))
"""
)
BESIDE_TORCH = (
    """
import importlib, sys
for name in sys.argv[2:]:
    importlib.import_module(name)
import numpy, torch
def product():
    ones = torch.ones(512, 512)
    return float((ones @ ones).sum()), float((ones.numpy() @ ones.numpy()).sum())
torch.set_num_threads(2)
before = product()
"""
    + ASK
    + """
found = ask(sys.argv[1])
assert product() == before == (512.0 ** 3, 512.0 ** 3), (product(), before)
print(found)
"""
)


@pytest.fixture(scope="session")
def model(tiny: Callable[[str], Path]) -> Path:
    return tiny("Q4_0")


@pytest.fixture(scope="session")
def answer(installed: Installed, model: Path) -> str:
    """What the wheel says in the suite's own environment."""
    done = installed.run("python", "-c", HERE, model)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.strip()) == 64
    return done.stdout


def by_pip(installed: Installed, *what: str | Path) -> None:
    """Install with the environment's pip, which has the user's settings of where wheels are."""
    argv = (installed.prefix / "bin" / "python", "-m", "pip", "install", "--no-compile", *what)
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode and TORCH in done.stderr and "No matching distribution" in done.stderr:
        pytest.skip(NO_TORCH)
    assert done.returncode == 0, done.stdout + done.stderr


def pip_environment(folder: Path) -> Installed:
    made = Installed(prefix=folder / "venv", cwd=folder / "elsewhere")
    made.cwd.mkdir(parents=True)
    subprocess.run((sys.executable, "-m", "venv", made.prefix), check=True)
    return made


@pytest.fixture(scope="session", params=["pip", "uv"])
def upgraded(
    request: pytest.FixtureRequest,
    artifact: Artifact,
    plan: Mapping[str, Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Installed:
    """The wheel over a stub of the same version without label, in a path with a space."""
    folder = tmp_path_factory.mktemp("upgraded")
    stub = write_stub(folder, plan["source"]["version"])
    pip = request.param == "pip"
    make, install = (pip_environment, by_pip) if pip else (fresh_environment, uv_install)
    made = make(folder / "sp ace")
    install(made, stub)
    assert "this is the stub" in made.run("python", "-c", "import llama_cpp").stderr
    install(made, artifact.wheel)
    return made


def test_it_replaces_the_older_wheel(upgraded: Installed, plan: Mapping[str, Any]) -> None:
    assert not (upgraded.package.parent / LEFTOVER).exists()
    assert len(list(upgraded.package.parent.glob("llama_cpp_python-*.dist-info"))) == 1
    shown = "import llama_cpp, importlib.metadata as metadata; print(llama_cpp.__version__)"
    done = upgraded.run("python", "-c", shown + "; print(metadata.version('llama-cpp-python'))")
    assert done.stdout.split() == [plan["version"]] * 2, done.stderr


def test_every_file_is_as_recorded(upgraded: Installed) -> None:
    done = upgraded.run("python", "-m", "llama_cpp.hostwheel", "--verify")
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_answers(upgraded: Installed, model: Path, answer: str) -> None:
    done = upgraded.run("python", "-c", HERE, model)
    assert (done.returncode, done.stdout) == (0, answer), done.stderr


def test_its_programs_start(upgraded: Installed, plan: Mapping[str, Any]) -> None:
    for tool in plan["tools"]:
        done = upgraded.run(tool, "--help")  # of which llama-quantize returns 1
        assert "usage" in (done.stdout + done.stderr).lower()


def test_child_processes_answer(
    installed: Installed, model: Path, answer: str, tmp_path: Path
) -> None:
    """Spawned, and forked from a process where llama.cpp has had its threads."""
    script = tmp_path / "children.py"
    script.write_text(IN_CHILDREN)
    done = installed.run("python", script, model)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == answer.splitlines() * 3


@pytest.mark.parametrize("python", other_pythons())
def test_another_python(
    python: str, artifact: Artifact, model: Path, answer: str, tmp_path: Path
) -> None:
    made = fresh_environment(tmp_path, str(other_pythons()[python]))
    uv_install(made, artifact.wheel)
    done = made.run("python", "-c", HERE, model)
    assert (done.returncode, done.stdout) == (0, answer), done.stderr
    assert made.run("llama-server", "--version").returncode == 0


@pytest.fixture(scope="session")
def beside_torch(artifact: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    made = pip_environment(tmp_path_factory.mktemp("beside-torch"))
    by_pip(made, TORCH, "numpy", artifact.wheel)
    return made


@pytest.mark.parametrize(
    "order", [("torch", "llama_cpp"), ("llama_cpp", "torch")], ids=" then ".join
)
def test_beside_torch_both_compute(
    beside_torch: Installed, model: Path, answer: str, order: tuple[str, str]
) -> None:
    """Three thread pools in one process: torch's OpenMP, numpy's BLAS and ours."""
    done = beside_torch.run("python", "-c", BESIDE_TORCH, model, *order)
    assert (done.returncode, done.stdout) == (0, answer), done.stderr
