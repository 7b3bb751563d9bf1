"""This machine as a host."""

import os
import platform
from pathlib import Path

from hostwheel.artifact.binary import highest, open_elf, text
from hostwheel.errors import MachineLacks
from hostwheel.facts import cpuid
from hostwheel.facts.host import Cpu, Host

LIBSTDCXX = "libstdc++.so.6"
LIBRARY_FOLDERS = tuple(
    Path(folder)
    for folder in ("/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64")
)


def this_machine() -> Host:
    """What CPUID, glibc and libstdc++ say; MachineLacks where it is no Linux x86-64.

    A GPU's compute capability cannot be read without CUDA: GPU code is not compared.
    """
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        found = f"{platform.system()} on {platform.machine()}"
        raise MachineLacks(f"this machine is {found}, not Linux on x86-64; name a --host instead")
    cpu = cpuid.Cpu()
    return Host(
        name="this machine",
        title=cpu.brand,
        cpu=Cpu(microarchitecture=cpu.brand, features=tuple(cpu.features)),
        gpu=None,
        glibc=glibc(),
        glibcxx=glibcxx(),
    )


def glibc() -> str:
    """glibc's version, "0" where the C library is another."""
    name = "CS_GNU_LIBC_VERSION"
    said = os.confstr(name) if name in os.confstr_names else None
    return said.split()[-1] if said else "0"


def glibcxx() -> str:
    """The newest GLIBCXX version of the installed libstdc++, "0" without one."""
    for folder in LIBRARY_FOLDERS:
        if (path := folder / LIBSTDCXX).is_file():
            defined = open_elf(path).symbols_version_definition
            names = (text(aux.name) for entry in defined for aux in entry.auxiliary_symbols)
            return highest(names).get("GLIBCXX", "0")
    return "0"
