"""A captured machine as the Host that everything else is compared with."""

from hostwheel.errors import MachineLacks
from hostwheel.facts.host import Cpu, Gpu, Host
from hostwheel.user import capture_machine
from hostwheel.user.capture_machine import Machine
from hostwheel.user.capture_text import NO_GLIBC, NO_GLIBCXX, level, title


def this_machine() -> Machine:
    """MachineLacks where this is no Linux on x86-64."""
    try:
        return capture_machine.this_machine()
    except OSError as error:
        raise MachineLacks(f"{error}; name a --host where the command has one") from None


def host_of(machine: Machine) -> Host:
    """The same values as reading the machine's host file gives."""
    graphics = machine.graphics
    gpu = None
    if graphics.gpus and graphics.driver:
        first = graphics.gpus[0]
        gpu = Gpu(name=first.name, compute=first.compute, driver=graphics.driver)
    return Host(
        name="this machine",
        title=title(machine, ""),
        cpu=Cpu(microarchitecture=level(machine), features=machine.features),
        gpu=gpu,
        glibc=machine.glibc or NO_GLIBC,
        glibcxx=machine.glibcxx or NO_GLIBCXX,
    )
