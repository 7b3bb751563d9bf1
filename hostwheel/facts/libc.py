"""Which glibc and libstdc++ a program would get here. Standard library only, Python 3.8 and newer.

Bundles and hostwheel-capture.pyz carry it.
"""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

LIBSTDCXX = "libstdc++.so.6"
GLIBC = re.compile(r"glibc (\d+\.\d+)")
GLIBCXX = re.compile(rb"\0GLIBCXX_3\.4\.(\d+)(?=\0)")


def glibc() -> str | None:
    """As "2.36"; None where the C library is another."""
    try:
        said = os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):
        return None
    found = GLIBC.match(said or "")
    return found.group(1) if found else None


def glibcxx(name: str = LIBSTDCXX) -> str | None:
    """The newest symbol version ("3.4.30") of the libstdc++ that the loader takes in this Python:
    the one that a wheel would get. None without one.
    """
    try:
        ctypes.CDLL(name)
    except OSError:
        return None
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape")
    paths = (line.split(maxsplit=5)[-1] for line in maps.splitlines())
    path = next((each for each in paths if Path(each).name.startswith(name)), None)
    found = [int(each) for each in GLIBCXX.findall(Path(path).read_bytes())] if path else []
    return f"3.4.{max(found)}" if found else None
