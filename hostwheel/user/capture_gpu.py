"""GPUs and driver, asked of NVML or of nvidia-smi. Standard library only, Python 3.8 and newer.

NVML comes with the driver and needs no CUDA. Function names, sizes and return codes: NVML API
Reference Guide.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NVML = "libnvidia-ml.so.1"
WSL_NVML = "/usr/lib/wsl/lib/libnvidia-ml.so.1"  # on no search path in some distributions
TEXT_SIZE = 96  # NVML_DEVICE_NAME_V2_BUFFER_SIZE; a driver's version takes 80 at most
SMI = ("nvidia-smi", "--query-gpu=name,compute_cap,driver_version,memory.total")
SMI_FORM = "--format=csv,noheader,nounits"
SMI_SECONDS = 30
KERNEL_DRIVER = "/proc/driver/nvidia/version"


@dataclass(frozen=True)
class Gpu:
    """`compute` is the compute capability without its dot ("86"); `memory` in bytes."""

    name: str
    compute: str
    memory: int


@dataclass(frozen=True)
class Graphics:
    """NVIDIA's driver and GPUs in the order of the bus. `problem` says why there are none."""

    driver: str | None
    gpus: tuple[Gpu, ...]
    problem: str


class Unanswered(Exception):
    """NVML or nvidia-smi did not answer; the text says what it said instead."""


def graphics() -> Graphics:
    """The first that answers: NVML, nvidia-smi; else what keeps them from it."""
    problems = []
    for ask in (ask_nvml, ask_smi):
        try:
            driver, gpus = ask()
        except Unanswered as problem:
            problems.append(str(problem))
        else:
            return Graphics(driver, gpus, "" if gpus else "the driver finds no GPU")
    return Graphics(kernel_driver(), (), "; ".join(problems))


def ask_nvml(names: tuple[str, ...] = (NVML, WSL_NVML)) -> tuple[str, tuple[Gpu, ...]]:
    library = load(names)
    called(library, "nvmlInit_v2")
    try:
        driver = ctypes.create_string_buffer(TEXT_SIZE)
        called(library, "nvmlSystemGetDriverVersion", driver, ctypes.c_uint(TEXT_SIZE))
        return text(driver), tuple(nvml_gpus(library))
    finally:
        library.nvmlShutdown()


def load(names: tuple[str, ...]) -> Any:
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise Unanswered(names[0] + " not found")


def nvml_gpus(library: Any) -> Iterator[Gpu]:
    count = ctypes.c_uint(0)
    called(library, "nvmlDeviceGetCount_v2", ctypes.byref(count))
    for index in range(count.value):
        device = ctypes.c_void_p()
        called(library, "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(device))
        name = ctypes.create_string_buffer(TEXT_SIZE)
        called(library, "nvmlDeviceGetName", device, name, ctypes.c_uint(TEXT_SIZE))
        major, minor = ctypes.c_int(0), ctypes.c_int(0)
        both = (ctypes.byref(major), ctypes.byref(minor))
        called(library, "nvmlDeviceGetCudaComputeCapability", device, *both)
        memory = (ctypes.c_ulonglong * 3)()  # nvmlMemory_t: total, free, used
        called(library, "nvmlDeviceGetMemoryInfo", device, ctypes.byref(memory))
        yield Gpu(text(name), f"{major.value}{minor.value}", memory[0])


def called(library: Any, function: str, *arguments: Any) -> None:
    """Call it; Unanswered with NVML's own words when it fails."""
    try:
        status = getattr(library, function)(*arguments)
    except AttributeError:
        raise Unanswered("NVML has no " + function) from None
    if status != 0:
        library.nvmlErrorString.restype = ctypes.c_char_p
        said = library.nvmlErrorString(ctypes.c_int(status)) or b""
        raise Unanswered(f"NVML: {said.decode(errors='replace')} ({function}: {status})")


def text(buffer: Any) -> str:
    return str(buffer.value.decode(errors="replace")).strip()


def ask_smi(program: tuple[str, ...] = SMI) -> tuple[str, tuple[Gpu, ...]]:
    try:
        done = subprocess.run(
            [*program, SMI_FORM],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SMI_SECONDS,
        )
    except FileNotFoundError:
        raise Unanswered("nvidia-smi not found") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unanswered(f"nvidia-smi: {error}") from None
    said = done.stdout.decode(errors="replace")
    if done.returncode != 0:
        raise Unanswered(f"nvidia-smi: {said.strip() or 'exit status ' + str(done.returncode)}")
    rows = [[cell.strip() for cell in line.rsplit(",", 3)] for line in said.splitlines() if line]
    try:
        gpus = tuple(Gpu(row[0], row[1].replace(".", ""), int(row[3]) << 20) for row in rows)
        return rows[0][2], gpus
    except (IndexError, ValueError):
        raise Unanswered(f"nvidia-smi printed {said.strip()!r}") from None


def kernel_driver(file: str = KERNEL_DRIVER) -> str | None:
    """The version of the loaded kernel module: a container may see no more than this."""
    try:
        said = Path(file).read_text()
    except OSError:
        return None
    found = re.search(r"Kernel Module\D*?\s(\d+(?:\.\d+)+)\s", said.replace("x86_64", ""))
    return found.group(1) if found else None
