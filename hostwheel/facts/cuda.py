"""CUDA toolkits: what they compile for and what they ask of a driver."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, kw_only=True, slots=True)
class Toolkit:
    """A CUDA toolkit release.

    `compute` are the compute capabilities that its nvcc generates machine code for
    (`nvcc --list-gpu-code`); `driver` is the lowest Linux driver (CUDA Toolkit release notes,
    table "CUDA Toolkit and Minimum Required Driver Version"); `soname` is the major version
    in the names of its libraries; `version` names the patch release that recipes/locks pins, or
    the release where that is part of the base image (not `packaged`). `requires` are the packages
    that bring cudart and cuBLAS, in this order, `folders` where below site-packages they put them.
    `compression` is nvcc's mode for machine code: with any but "none" CUDA 12 needs driver 550.
    `repeatable` are nvcc's options that make two compilations of a file equal, `quick` those that
    compile fast and slow the code down, for drafts.
    """

    release: str
    version: str
    compute: tuple[str, ...]
    driver: str
    soname: int
    packaged: bool
    compression: str
    requires: tuple[str, ...]
    folders: tuple[str, ...]
    repeatable: tuple[str, ...] = ()
    quick: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return "cu" + self.release.replace(".", "")


# Machine code runs with any driver of its major version: table "CUDA Toolkit and Minimum Required
# Driver Version for CUDA Minor Version Compatibility".
MAJOR_DRIVERS: Mapping[int, str] = MappingProxyType(
    {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
)

CUDA12_FOLDERS = ("nvidia/cuda_runtime/lib", "nvidia/cublas/lib")  # one for each package

TOOLKITS: Mapping[str, Toolkit] = MappingProxyType(
    {
        "13.0": Toolkit(
            release="13.0",
            version="13.0.2",
            compute=("75", "80", "86", "87", "88", "89", "90", "100", "103", "110", "120", "121"),
            driver=MAJOR_DRIVERS[13],
            soname=13,
            packaged=True,
            compression="size",
            requires=("nvidia-cuda-runtime>=13,<14", "nvidia-cublas>=13,<14"),
            folders=("nvidia/cu13/lib",),
            # nvcc otherwise puts the process id into the names of functions that only one file
            # sees, and they end up in the GPU code. Names stay unique: they also hold the file's
            # name and a hash of it. nvcc 12.4 knows no such option and needs none.
            repeatable=("-frandom-seed=0",),
            quick=("--Ofast-compile=max",),
        ),
        "12.9": Toolkit(
            release="12.9",
            version="12.9",
            compute=(
                *("50", "52", "53", "60", "61", "62", "70", "72", "75", "80", "86", "87", "89"),
                *("90", "100", "101", "103", "120", "121"),
            ),
            driver=MAJOR_DRIVERS[12],
            soname=12,
            packaged=False,  # the registry has no nvcc of CUDA 12
            compression="none",
            requires=("nvidia-cuda-runtime-cu12>=12.9,<13", "nvidia-cublas-cu12>=12.9,<13"),
            folders=CUDA12_FOLDERS,
        ),
        "12.4": Toolkit(  # what docker/local-cuda12 puts into a base
            release="12.4",
            version="12.4",
            compute=(
                *("50", "52", "53", "60", "61", "62", "70", "72", "75", "80", "86", "87", "89"),
                "90",
            ),
            driver=MAJOR_DRIVERS[12],
            soname=12,
            packaged=False,
            compression="none",
            requires=("nvidia-cuda-runtime-cu12>=12.4,<13", "nvidia-cublas-cu12>=12.4,<13"),
            folders=CUDA12_FOLDERS,
        ),
    }
)

# ggml's ggml-cuda/CMakeLists.txt rewrites every plain 12x to 12xa, for its FP4 instructions.
ARCHITECTURE_SPECIFIC: Mapping[str, str] = MappingProxyType({"120": "120a", "121": "121a"})


def machine_code_for(compute: str) -> str:
    """The architecture that ggml really compiles for a compute capability: 86 → 86, 120 → 120a."""
    return ARCHITECTURE_SPECIFIC.get(compute, compute)


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    """`ptx` is the PTX ISA that its nvcc writes; `driver` the Linux driver that came with it."""

    ptx: str
    driver: str


# By exact minor version. CUDA Toolkit release notes, table "CUDA Toolkit and Corresponding Driver
# Versions"; PTX ISA, table "PTX Release History".
RELEASES: Mapping[str, Release] = MappingProxyType(
    {
        "11.0": Release(ptx="7.0", driver="450.36.06"),
        "11.1": Release(ptx="7.1", driver="455.23"),
        "11.2": Release(ptx="7.2", driver="460.27.03"),
        "11.3": Release(ptx="7.3", driver="465.19.01"),
        "11.4": Release(ptx="7.4", driver="470.42.01"),
        "11.5": Release(ptx="7.5", driver="495.29.05"),
        "11.6": Release(ptx="7.6", driver="510.39.01"),
        "11.7": Release(ptx="7.7", driver="515.43.04"),
        "11.8": Release(ptx="7.8", driver="520.61.05"),
        "12.0": Release(ptx="8.0", driver="525.60.13"),
        "12.1": Release(ptx="8.1", driver="530.30.02"),
        "12.2": Release(ptx="8.2", driver="535.54.03"),
        "12.3": Release(ptx="8.3", driver="545.23.06"),
        "12.4": Release(ptx="8.4", driver="550.54.14"),
        "12.5": Release(ptx="8.5", driver="555.42.02"),
        "12.6": Release(ptx="8.5", driver="560.28.03"),
        "12.7": Release(ptx="8.6", driver="565.57.01"),
        "12.8": Release(ptx="8.7", driver="570.26"),
        "12.9": Release(ptx="8.8", driver="575.51.03"),
        "13.0": Release(ptx="9.0", driver="580.65.06"),
        "13.1": Release(ptx="9.1", driver="590.44.01"),
        "13.2": Release(ptx="9.2", driver="595.45.04"),
    }
)

# Older drivers cannot unpack compressed images of CUDA 12.4 and later: reported for 535, works
# from the branch of CUDA 12.4 on (ollama 16449).
COMPRESSED_DRIVER = "550.54.14"


def release_of_ptx(version: str) -> str | None:
    """The first toolkit release that writes this PTX ISA; None for one that is not known."""
    return next((name for name, release in RELEASES.items() if release.ptx == version), None)
