"""Shared libraries by who brings them, and what may be in a wheel."""

import re
from collections.abc import Mapping
from types import MappingProxyType

# What glibc and GCC's runtime bring on every Linux machine; every manylinux policy lists them.
EVERYWHERE = frozenset(
    {
        *("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"),
        *("libutil.so.1", "libresolv.so.2", "ld-linux-x86-64.so.2"),
        *("libstdc++.so.6", "libgcc_s.so.1"),
    }
)

# What only NVIDIA's driver brings: never to be bundled, never to be had from a registry.
DRIVER = frozenset(
    {"libcuda.so.1", "libnvidia-ml.so.1", "libnvcuvid.so.1", "libnvidia-encode.so.1"}
)

# What every manylinux policy lists besides: minimal containers lack them, desktops have them.
MANYLINUX = frozenset(
    {
        *("libz.so.1", "libexpat.so.1", "libnsl.so.1", "libGL.so.1"),
        *("libX11.so.6", "libXext.so.6", "libXrender.so.1", "libICE.so.6", "libSM.so.6"),
        *("libglib-2.0.so.0", "libgobject-2.0.so.0", "libgthread-2.0.so.0"),
    }
)

# In most distributions' packages, in no minimal container: a host file does not speak of them.
OFTEN = frozenset(
    {
        *("libgomp.so.1", "libatomic.so.1", "libnuma.so.1", "libtbb.so.12", "libcurl.so.4"),
        *("libssl.so.3", "libcrypto.so.3", "libvulkan.so.1", "libOpenCL.so.1", "libEGL.so.1"),
    }
)

# Library → the distribution that brings it; in CUDA 12 its name ends in -cu12.
NVIDIA: Mapping[str, str] = MappingProxyType(
    {
        "libcudart": "nvidia-cuda-runtime",
        "libcublas": "nvidia-cublas",
        "libcublasLt": "nvidia-cublas",
        "libcufft": "nvidia-cufft",
        "libcurand": "nvidia-curand",
        "libcusolver": "nvidia-cusolver",
        "libcusparse": "nvidia-cusparse",
        "libcusparseLt": "nvidia-cusparselt",
        "libcudnn": "nvidia-cudnn",
        "libcufile": "nvidia-cufile",
        "libcupti": "nvidia-cuda-cupti",
        "libnccl": "nvidia-nccl",
        "libnvJitLink": "nvidia-nvjitlink",
        "libnvrtc": "nvidia-cuda-nvrtc",
        "libnvToolsExt": "nvidia-nvtx",
        "libnvshmem_host": "nvidia-nvshmem",
    }
)
# Those whose number is CUDA's own major version.
CUDA_NUMBERED = frozenset({"libcudart", "libcublas", "libcublasLt", "libnvrtc", "libnvJitLink"})

# Folders that CMake's install rules leave at the top of site-packages: they clash between wheels.
LEAKED_FOLDERS = frozenset({"bin", "cmake", "etc", "include", "lib", "lib64", "share", "src"})

# The registry's default limit for one file.
BUDGET_BYTES = 100 << 20

SONAME = re.compile(r"(?P<stem>lib[\w+-]+)\.so\.(?P<major>\d+)")


def nvidia_library(needed: str) -> tuple[str, int] | None:
    """(distribution, major version) of a CUDA library by its soname; None for any other."""
    match = SONAME.match(needed)
    if match is None or match["stem"] not in NVIDIA:
        return None
    return NVIDIA[match["stem"]], int(match["major"])


def cuda_major(needed: str) -> int | None:
    """The CUDA major version that a soname names; None where it names none."""
    match = SONAME.match(needed)
    return int(match["major"]) if match and match["stem"] in CUDA_NUMBERED else None
