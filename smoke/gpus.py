"""How many GPUs the driver sees, and the difference between none and one that does not work."""

import ctypes
from pathlib import Path
from typing import NoReturn

import pytest

DRIVER = "libcuda.so.1"
DEVICE = Path("/dev/nvidia0")
NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE in cuda.h


def devices(library: str = DRIVER, device: Path = DEVICE) -> int:
    """The number of GPUs. The check fails where there is one that cannot be used. B10"""
    found, said = ask(library)
    if not found and device.exists():
        broken(f"{device} is here, and {said}")
    return found


def ask(library: str) -> tuple[int, str]:
    """The number of GPUs, and how it comes to be 0."""
    try:
        driver = ctypes.CDLL(library)
    except OSError as error:
        if str(error) == f"{library}: cannot open shared object file: No such file or directory":
            return 0, f"there is no {library}"
        broken(f"the driver cannot be loaded: {error}")
    count = ctypes.c_int(0)
    code = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if code not in (0, NO_DEVICE):
        broken(f"{library} gives CUDA error {code}")
    return (0 if code else count.value), f"{library} sees no GPU (CUDA error {code})"


def broken(said: str) -> NoReturn:
    pytest.fail(f"gpu: {said}; see nvidia-smi, and CUDA_VISIBLE_DEVICES if it is set")
