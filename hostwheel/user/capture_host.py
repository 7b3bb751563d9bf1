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


def host_of(machine: Machine, at: int = 0) -> Host:
    """The same values as reading the machine's host file gives, with the GPU `at` this place."""
    graphics = machine.graphics
    gpu = None
    if graphics.gpus and graphics.driver:
        card = graphics.gpus[at]
        gpu = Gpu(name=card.name, compute=card.compute, driver=graphics.driver)
    return Host(
        name="this machine",
        title=title(machine, ""),
        cpu=Cpu(microarchitecture=level(machine), features=machine.features),
        gpu=gpu,
        glibc=machine.glibc or NO_GLIBC,
        glibcxx=machine.glibcxx or NO_GLIBCXX,
    )
