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
    in the names of its libraries; `version` names the patch release that recipes/locks pins.
    """

    release: str
    version: str
    compute: tuple[str, ...]
    driver: str
    soname: int

    @property
    def label(self) -> str:
        return "cu" + self.release.replace(".", "")


TOOLKITS: Mapping[str, Toolkit] = MappingProxyType(
    {
        "13.0": Toolkit(
            release="13.0",
            version="13.0.2",
            compute=("75", "80", "86", "87", "88", "89", "90", "100", "103", "110", "120", "121"),
            driver="580.65.06",
            soname=13,
        )
    }
)

# ggml's ggml-cuda/CMakeLists.txt rewrites every plain 12x to 12xa, for its FP4 instructions.
ARCHITECTURE_SPECIFIC: Mapping[str, str] = MappingProxyType({"120": "120a", "121": "121a"})


def machine_code_for(compute: str) -> str:
    """The architecture that ggml really compiles for a compute capability: 86 → 86, 120 → 120a."""
    return ARCHITECTURE_SPECIFIC.get(compute, compute)
