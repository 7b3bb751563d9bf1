"""Driver and GPUs, from a library and a program that answer as NVIDIA's do."""

import subprocess
from pathlib import Path

import pytest

from hostwheel.user import capture_gpu
from hostwheel.user.capture_gpu import Gpu, Graphics, Unanswered
from tests.users import A10G, T4

NVML = r"""
#include <string.h>
int nvmlInit_v2(void) { return %(init)d; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return "Driver/library version mismatch"; }
int nvmlSystemGetDriverVersion(char *to, unsigned size) {
    if (size < 80) return 7;
    strcpy(to, "580.95.05"); return 0;
}
int nvmlDeviceGetCount_v2(unsigned *to) { *to = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned at, void **to) {
    *to = (void *)(0x7f0000000000 + at); return 0; /* more than 32 bits, as pointers have */
}
int nvmlDeviceGetName(void *device, char *to, unsigned size) {
    if (size < 96) return 7;
    strcpy(to, (long)device & 1 ? "Tesla T4" : "NVIDIA A10G"); return 0;
}
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
    *major = (long)device & 1 ? 7 : 8; *minor = (long)device & 1 ? 5 : 6; return 0;
}
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *to) {
    to[0] = ((long)device & 1 ? 16ull : 24ull) << 30; return 0;
}
"""


def nvml(folder: Path, init: int = 0) -> str:
    """A libnvidia-ml of two GPUs."""
    source, library = folder / "nvml.c", folder / "libnvidia-ml.so.1"
    source.write_text(NVML % {"init": init})
    subprocess.run(("gcc", "-shared", "-fPIC", str(source), "-o", str(library)), check=True)
    return str(library)


def smi(folder: Path, text: str, status: int = 0) -> tuple[str, ...]:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\ncat <<'E'\n{text}\nE\nexit {status}\n")
    program.chmod(0o755)
    return (str(program), "--query-gpu=…")


def test_nvml_names_driver_and_gpus(tmp_path: Path) -> None:
    assert capture_gpu.ask_nvml((nvml(tmp_path),)) == ("580.95.05", (A10G, T4))


def test_nvmls_own_words_are_kept(tmp_path: Path) -> None:
    with pytest.raises(
        Unanswered, match=r"NVML: Driver/library version mismatch \(nvmlInit_v2: 18"
    ):
        capture_gpu.ask_nvml((nvml(tmp_path, init=18),))
    with pytest.raises(Unanswered, match=r"libnowhere.so not found"):
        capture_gpu.ask_nvml(("libnowhere.so",))


def test_nvidia_smi_names_driver_and_gpus(tmp_path: Path) -> None:
    text = "NVIDIA A10G, 8.6, 580.95.05, 24576\nTesla T4, 7.5, 580.95.05, 16384"
    assert capture_gpu.ask_smi(smi(tmp_path, text)) == ("580.95.05", (A10G, T4))


@pytest.mark.parametrize(
    ("text", "status", "told"),
    [
        ("NVIDIA-SMI has failed", 9, "nvidia-smi: NVIDIA-SMI has failed"),
        ("No devices were found", 0, "nvidia-smi printed 'No devices were found'"),
    ],
)
def test_what_nvidia_smi_says_instead_is_kept(
    text: str, status: int, told: str, tmp_path: Path
) -> None:
    with pytest.raises(Unanswered, match=told):
        capture_gpu.ask_smi(smi(tmp_path, text, status))


def test_the_second_is_asked_where_the_first_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def silent() -> tuple[str, tuple[Gpu, ...]]:
        raise Unanswered("NVML: no")

    monkeypatch.setattr(capture_gpu, "ask_nvml", silent)
    monkeypatch.setattr(capture_gpu, "ask_smi", lambda: ("580.95.05", (A10G,)))
    assert capture_gpu.graphics() == Graphics("580.95.05", (A10G,), "")
    monkeypatch.setattr(capture_gpu, "ask_smi", silent)
    monkeypatch.setattr(capture_gpu, "kernel_driver", lambda: "580.95.05")
    assert capture_gpu.graphics() == Graphics("580.95.05", (), "NVML: no; NVML: no")


@pytest.mark.parametrize(
    "line",
    [
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 22:20:39 UTC 2023",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  535.54.03  Release Build",
    ],
)
def test_the_loaded_kernel_module_names_its_version(line: str, tmp_path: Path) -> None:
    file = tmp_path / "version"
    file.write_text(f"{line}\nGCC version:  gcc version 12.3.0\n")
    assert capture_gpu.kernel_driver(str(file)) == "535.54.03"
    assert capture_gpu.kernel_driver(str(tmp_path / "none")) is None
