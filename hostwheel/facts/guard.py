"""What a wheel checks before it maps a library: copied into it, beside cpuid.py.

Standard library only, Python 3.8 and newer. The executables carry the same check in guard.c.
"""

from __future__ import annotations

import ctypes
import sys

from . import cpuid


def check_cpu(build: str, needed: tuple[str, ...]) -> None:
    """Raise ImportError when this CPU lacks any of `needed` (archspec names)."""
    lacking = cpuid.missing(needed)
    if lacking:
        raise ImportError(refusal(build, needed, lacking, cpuid.Cpu().brand))


def refusal(build: str, needed: tuple[str, ...], lacking: tuple[str, ...], brand: str) -> str:
    """The paragraph that a person reads on the wrong CPU."""
    return (
        f"llama.cpp {build} cannot run on this CPU ({brand}).\n"
        f"It was compiled for CPUs with: {' '.join(needed)}.\n"
        f"This CPU, or the virtual machine around it, lacks: {' '.join(lacking)}.\n"
        "Install a build for this machine, for example one labelled cpu.sse42."
    )


def note_missing_driver(build: str) -> None:
    """Say in one line on stderr that a CUDA build runs on the CPU for want of a driver."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        print(
            f"llama_cpp {build}: no NVIDIA driver on this machine (libcuda.so.1 not found): "
            "running on the CPU",
            file=sys.stderr,
        )
