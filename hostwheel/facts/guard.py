"""What a wheel checks before it maps a library: copied into it, beside cpuid.py.

Standard library only, Python 3.8 and newer. The executables carry the CPU's check in guard.c.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

from . import cpuid

INSIDE = "llama_cpp.hostwheel"
LIBRARIES = Path(__file__).parents[1] / "lib"  # $ORIGIN of the package's libraries


def is_only_asked() -> bool:
    """Is this `python -m llama_cpp.hostwheel` on its way to that module? (Python 3.10 and newer)"""
    given = sys.argv  # while it looks for the module: "-m", then what follows the module's name
    module = list(getattr(sys, "orig_argv", ()))[-len(given) :][:1]
    return given[:1] == ["-m"] and module in ([INSIDE], ["-m" + INSIDE])


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
        "Install a build for this machine, for example one labelled cpu.any."
    )


def check_cuda(build: str, needed: dict[str, str], runpath: tuple[str, ...]) -> None:
    """Raise ImportError when one of CUDA's libraries (file name → requirement) is not there."""
    lacking = [name for name in needed if not is_there(name, runpath)]
    if lacking:
        raise ImportError(
            f"llama_cpp {build} needs {' and '.join(lacking)} of CUDA, not found on this machine: "
            "pip install " + " ".join(f'"{needed[name]}"' for name in lacking)
        )


def is_there(name: str, runpath: tuple[str, ...]) -> bool:
    """In a folder of `runpath`, or where else the loader looks.

    What is in a folder is not loaded here: the loader itself asks LD_LIBRARY_PATH first.
    """
    folders = (Path(folder.replace("$ORIGIN", str(LIBRARIES))) for folder in runpath)
    if any((folder / name).is_file() for folder in folders):
        return True
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def load_backends(build: str) -> None:
    """Load the best CPU variant of ggml for this machine; ImportError when there is none."""
    ggml = ctypes.CDLL(str(LIBRARIES / "libggml.so"))
    ggml.ggml_backend_load_all()
    if ggml.ggml_backend_reg_count() == 0:
        raise ImportError(
            f"llama_cpp {build} has no CPU backend that runs here: one of "
            f"{LIBRARIES}/libggml-cpu-*.so must be readable; reinstall the wheel"
        )


def note_driver(build: str, release: str, driver: str) -> None:
    """Say in one line on stderr that a build with CUDA `release` runs on the CPU, and why."""
    problem = driver_problem(int(release.partition(".")[0]), driver)
    if problem:
        print(f"llama_cpp {build}: {problem}: running on the CPU", file=sys.stderr)


def driver_problem(major: int, driver: str) -> str:
    """What keeps this machine's driver from CUDA `major`; empty when nothing does.

    A driver works for every toolkit of the major release that it reports, or of an older one.
    """
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no NVIDIA driver on this machine (libcuda.so.1 not found)"
    ask, found = getattr(library, "cuDriverGetVersion", None), ctypes.c_int(0)
    status = ask(ctypes.byref(found)) if ask else -1
    if status != 0:
        return f"the NVIDIA driver does not work (cuDriverGetVersion: {status})"
    if found.value < major * 1000:
        has = f"{found.value // 1000}.{found.value % 1000 // 10}"
        return (
            f"the NVIDIA driver is for CUDA {has} at most, "
            f"this build needs CUDA {major}, driver {driver} or newer"
        )
    return ""
