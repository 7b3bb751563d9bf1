"""What is in wheels, compiled once a session. Tests name it in `pytest_plugins`."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.plans import LIB, need_nvcc, runpath_of, wheel_files
from tests.products import CUDA, PLAN

KERNEL = "__global__ void kernel(float *x) { x[threadIdx.x] += 1.0f; }\n"


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    """A wheel of the AVX2 recipe."""
    return wheel_files(PLAN, tmp_path_factory.mktemp("cpu"))


@pytest.fixture(scope="session")
def gpu_code(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    """A CUDA backend with the A10G's machine code, with another card's, and with PTX beside it."""
    nvcc, folder = need_nvcc(), tmp_path_factory.mktemp("gpu")
    wanted = {"sm_86": "sm_86", "sm_89": "sm_89", "ptx": "[compute_86,sm_86]"}
    return {name: cuda_backend(nvcc, folder / name, code) for name, code in wanted.items()}


@pytest.fixture(scope="session")
def cuda_files(
    tmp_path_factory: pytest.TempPathFactory, gpu_code: Mapping[str, bytes]
) -> Mapping[str, bytes]:
    """A wheel of the A10G recipe."""
    files = wheel_files(CUDA, tmp_path_factory.mktemp("cuda"))
    return files | {f"{LIB}/libggml-cuda.so": gpu_code["sm_86"]}


def cuda_backend(nvcc: str, folder: Path, code: str) -> bytes:
    folder.mkdir()
    source, library = folder / "kernel.cu", folder / "libggml-cuda.so"
    source.write_text(KERNEL)
    virtual = code.strip("[]").split(",")[0].replace("sm", "compute")
    host = ("-ccbin", "/usr/bin/g++", "-shared", "-cudart", "shared", "-Xcompiler", "-fPIC")
    search = ("-Xlinker", "--enable-new-dtags", "-Xlinker", f"-rpath={runpath_of(CUDA)}")
    target = ("-gencode", f"arch={virtual},code={code}")
    argv = (nvcc, *host, *search, *target, str(source), "-o", str(library))
    subprocess.run(argv, check=True)
    return library.read_bytes()
