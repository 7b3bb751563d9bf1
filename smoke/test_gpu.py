"""A build with CUDA: really on the GPU where there is one, and honest where there is none."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from smoke.apart import TWO_RIGHT_WAYS
from smoke.gpus import devices
from smoke.installed import Artifact, Installed, fresh_environment, uv_install

KINDS = ("F16", "Q8_0", "Q4_0", "Q4_K", "Q6_K")
LAYERS = 3  # the tiny model's two, and its output

# Log-probabilities after a sentence on the CPU and on the GPU, and how far they are apart; what
# llama.cpp says of devices, buffers and layers goes to stderr.
COMPARE = """
import json, sys
import numpy
from hostwheel.readout import LlamaCppBackend

def row(layers, **more):
    backend = LlamaCppBackend(sys.argv[1], n_ctx=256, n_gpu_layers=layers, verbose=True, **more)
    found = backend.next_token_distributions(["The capital of France is"])[0]
    backend.close()
    return numpy.asarray(found)

def off(found):
    return float(numpy.abs(found - cpu).max() / numpy.std(cpu))

cpu, F16 = row(0), 1
flash = row(-1, flash_attn=True, type_k=F16, type_v=F16)
print(json.dumps({"plain": off(row(-1)), "flash": off(flash)}))
"""
ASK = """
import sys
from llama_cpp import Llama
llm = Llama(model_path=sys.argv[1], n_ctx=64, n_gpu_layers=-1, verbose=False)
print(len(llm("The capital of France is", max_tokens=3)["choices"][0]["text"]) > 0)
"""


@pytest.fixture(scope="session")
def cuda(plan: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the plan says of CUDA."""
    if not plan["cuda"]:
        pytest.skip("gpu: not run: this build has no GPU code")
    cuda: Mapping[str, Any] = plan["cuda"]
    return cuda


@pytest.fixture(scope="session")
def gpu(cuda: Mapping[str, Any], pytestconfig: pytest.Config) -> int:
    """The number of GPUs."""
    found = devices()
    if not found and pytestconfig.getoption("--gpu"):
        pytest.fail("--gpu was given, and no GPU or no driver was found (nvidia-smi says more)")
    if not found:
        pytest.skip("gpu: not run: no GPU here")
    return found


@pytest.fixture(scope="session")
def no_gpu(cuda: Mapping[str, Any]) -> None:
    if devices():
        pytest.skip("not run here: this machine has a GPU")


@pytest.fixture(scope="session", params=KINDS)
def compared(
    gpu: int, installed: Installed, tiny: Callable[[str], Path], request: pytest.FixtureRequest
) -> tuple[Mapping[str, float], str]:
    """How far GPU and CPU are apart for a model of this type, and what llama.cpp said."""
    done = installed.run("python", "-c", COMPARE, tiny(request.param))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_the_devices_are_listed(gpu: int, installed: Installed) -> None:
    """B10: the banner says CUDA and it runs on the CPU"""
    done = installed.run("llama-server", "--list-devices")
    listed = done.stdout + done.stderr
    assert [f"CUDA{number}" for number in range(gpu) if f"CUDA{number}:" not in listed] == []


def test_the_gpu_computes_what_the_cpu_does(
    compared: tuple[Mapping[str, float], str],
) -> None:
    """B8"""
    off, _ = compared
    assert set(off) == {"plain", "flash"}
    assert max(off.values()) < TWO_RIGHT_WAYS, off


def test_every_layer_is_on_the_gpu(compared: tuple[Mapping[str, float], str]) -> None:
    """No silent fall-back. B10, C13"""
    _, said = compared
    assert said.count(f"offloaded {LAYERS}/{LAYERS} layers to GPU") == 2, said
    for buffer in ("model", "KV", "compute"):
        assert f"CUDA0 {buffer} buffer size" in said, said


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_it_says_so_in_one_line_and_answers(
    installed: Installed, plan: Mapping[str, Any], tiny: Callable[[str], Path]
) -> None:
    """C4"""
    done = installed.run("python", "-c", ASK, tiny("Q4_0"))
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    lines = done.stderr.splitlines()
    assert len([line for line in lines if line.startswith(f"llama_cpp {plan['version']}: ")]) == 1
    assert lines[0].endswith(": running on the CPU")


def test_without_cudas_libraries_it_says_what_to_install(
    cuda: Mapping[str, Any], artifact: Artifact, tmp_path: Path
) -> None:
    """C1, C21. A file of the same name that is none hides a library that the system has."""
    made = fresh_environment(tmp_path)
    uv_install(made, "--no-deps", artifact.wheel)
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    for name in ("libcudart.so", "libcublas.so"):
        (hidden / f"{name}.{cuda['release'].partition('.')[0]}").write_text("no library")
    done = made.run("python", "-c", "import llama_cpp", env={"LD_LIBRARY_PATH": str(hidden)})
    assert done.returncode == 1
    assert "of CUDA, not found on this machine: pip install " in done.stderr
    for package in ("nvidia-cuda-runtime", "nvidia-cublas"):
        assert package in done.stderr.splitlines()[-1]
