"""This machine as a host."""

import platform

from hostwheel.errors import MachineLacks
from hostwheel.facts import cpuid, libc
from hostwheel.facts.host import Cpu, Host

NONE = "0"  # of another C library, or without libstdc++


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
        glibc=libc.glibc() or NONE,
        glibcxx=libc.glibcxx() or NONE,
    )
