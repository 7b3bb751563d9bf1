"""What this machine has. Standard library only, Python 3.8 and newer.

The capture modules also go into hostwheel-capture.pyz, for machines without hostwheel.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable
from dataclasses import dataclass

from hostwheel.facts.cpuid import Cpu
from hostwheel.facts.isa import PREREQUISITES
from hostwheel.facts.libc import glibc, glibcxx
from hostwheel.user.capture_gpu import Graphics, graphics
from hostwheel.user.capture_limits import Limits, limits


@dataclass(frozen=True)
class Machine:
    """`features` as CPUID and the operating system show them, in archspec's names.

    `glibc` is None where the C library is another, `glibcxx` (the newest symbol version of
    libstdc++) where there is none. `python` is the version that runs this.
    """

    brand: str
    features: tuple[str, ...]
    glibc: str | None
    glibcxx: str | None
    python: str
    graphics: Graphics
    limits: Limits


def this_machine() -> Machine:
    """OSError with a sentence where this is no Linux on x86-64."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        found = f"{platform.system()} on {platform.machine()}"
        raise OSError(f"this machine is {found}; a host is Linux on x86-64")
    cpu = Cpu()
    return Machine(
        brand=cpu.brand,
        features=usable(cpu.features),
        glibc=glibc(),
        glibcxx=glibcxx(),
        python=platform.python_version(),
        graphics=graphics(),
        limits=limits(),
    )


def usable(features: Iterable[str]) -> tuple[str, ...]:
    """Without those that stand on one that is masked: AVX2 is of no use where AVX is not shown."""
    left = set(features)
    while True:
        lame = {each for each in left if not left.issuperset(PREREQUISITES.get(each, ()))}
        if not lame:
            return tuple(sorted(left))
        left -= lame
