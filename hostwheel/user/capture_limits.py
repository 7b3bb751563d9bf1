"""How much of the machine this process may use. Standard library only, Python 3.8 and newer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CGROUPS = "sys/fs/cgroup"
NO_LIMIT = 1 << 60  # bytes: cgroup v1 writes the largest page-aligned number for "none"


@dataclass(frozen=True)
class Limits:
    """`cpus` by affinity, `quota` in CPUs by cgroup; `memory` and `memory_limit` in bytes.

    None is no limit, or nothing known of it.
    """

    cpus: int
    quota: float | None
    memory: int | None
    memory_limit: int | None


def limits(root: Path = Path("/")) -> Limits:
    """The narrowest limit of this process's cgroups and those above them, versions 1 and 2.

    `root` is where /proc and /sys are found.
    """
    quotas = [quota for folder in folders(root, "cpu") for quota in quotas_of(folder)]
    bounds = [bound for folder in folders(root, "memory") for bound in bounds_of(folder)]
    return Limits(
        cpus=len(os.sched_getaffinity(0)),
        quota=min(quotas, default=None),
        memory=memory(root),
        memory_limit=min(bounds, default=None),
    )


def folders(root: Path, controller: str) -> Iterator[Path]:
    """The folders of our cgroup that may limit it, up to the top.

    In a container without a cgroup namespace the path is the host's, and only the top is there.
    """
    for line in read(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if number == "0" and not names:  # version 2
            tops = [root / CGROUPS, root / CGROUPS / "unified"]
        elif controller in names.split(","):
            tops = [root / CGROUPS / controller]
        else:
            continue
        for top in tops:
            own = top / path.lstrip("/")
            yield from (each for each in (own, *own.parents) if each == top or top in each.parents)


def quotas_of(folder: Path) -> Iterator[float]:
    """CPUs: microseconds of each period, by the period."""
    words = read(folder / "cpu.max").split()
    if not words:
        words = [read(folder / f"cpu.cfs_{what}_us").strip() for what in ("quota", "period")]
    if len(words) == 2 and words[0].isdigit() and words[1].isdigit() and int(words[1]):
        yield int(words[0]) / int(words[1])


def bounds_of(folder: Path) -> Iterator[int]:
    for name in ("memory.max", "memory.limit_in_bytes"):
        text = read(folder / name).strip()
        if text.isdigit() and int(text) < NO_LIMIT:
            yield int(text)


def memory(root: Path) -> int | None:
    for line in read(root / "proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return None


def read(path: Path) -> str:
    """Empty where there is no such file, or we may not read it."""
    try:
        return path.read_text()
    except OSError:
        return ""
