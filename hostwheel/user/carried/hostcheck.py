"""Can this machine and this Python run what is in the bundle? Asked before anything is written."""

from __future__ import annotations

import platform
import sys
import sysconfig
from typing import Any

from hostwheel.errors import BadInput, MachineLacks
from hostwheel.facts import cpuid, libc


def check_host(said: dict[str, Any]) -> None:
    """`said` is bundle.json. Python first: it is the quickest to mend."""
    check_python(said["python"])
    check_cpu(said["version"], tuple(said["features"]))
    check_glibc(said["glibc"])
    check_glibcxx(said["glibcxx"])


def check_python(wanted: str) -> None:
    """The wheels were chosen for one minor version of CPython, with its lock."""
    found = "{}.{}".format(*sys.version_info[:2])
    what = f"{platform.python_implementation()} {platform.python_version()} ({sys.executable})"
    if found != wanted or sys.implementation.name != "cpython":
        raise BadInput(
            f"this bundle is for CPython {wanted}, and this is {what}: start install.py with"
            f" python{wanted}, or make a bundle with `hostwheel bundle --python {found}`"
        )
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise BadInput(f"{what} is free-threaded, the bundle is for the usual CPython {wanted}")
    if sys.maxsize < 2**32 or sys.platform != "linux" or platform.machine() != "x86_64":
        where = f"{sys.platform} {platform.machine()}, {sys.maxsize.bit_length() + 1} bits"
        raise MachineLacks(f"the bundle is for Linux on x86-64, and this is {where}")


def check_cpu(build: str, features: tuple[str, ...]) -> None:
    if lacking := cpuid.missing(features):
        raise MachineLacks(
            f"llama.cpp {build} cannot run on this CPU ({cpuid.Cpu().brand}), or the virtual"
            f" machine around it: it lacks {' '.join(lacking)}.\n"
            "Make a bundle of a build for this machine; `hostwheel capture` describes it"
        )


def check_glibc(wanted: str) -> None:
    found = libc.glibc()
    if found is None:
        raise MachineLacks(f"the bundle needs glibc {wanted}, this system has another libc (musl?)")
    if numbers(found) < numbers(wanted):
        raise MachineLacks(
            f"the bundle needs glibc {wanted} or newer, this system has {found}: make one with"
            " `hostwheel bundle --host` of this machine"
        )


def check_glibcxx(wanted: str) -> None:
    found = libc.glibcxx()
    if found is None:
        raise MachineLacks(
            f"{libc.LIBSTDCXX} is not on this system, and llama.cpp needs it: apt-get install"
            " libstdc++6, or put its folder into LD_LIBRARY_PATH"
        )
    if numbers(found) < numbers(wanted):
        raise MachineLacks(
            f"llama.cpp needs libstdc++ with GLIBCXX_{wanted}, this system's ends at"
            f" GLIBCXX_{found}: take a newer one, or a build for an older system"
        )


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
