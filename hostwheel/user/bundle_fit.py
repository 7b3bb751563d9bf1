"""Why a published build does not run on a described host."""

from collections.abc import Iterator

from hostwheel.artifact.binary import numeric
from hostwheel.facts.cuda import machine_code_for
from hostwheel.facts.host import Host
from hostwheel.publish.catalog import Needs


def misfits(needs: Needs, host: Host) -> Iterator[str]:
    """A sentence for each reason; none for a host that runs it as it was meant."""
    lacking = [name for name in needs.features if name not in host.cpu.features]
    if lacking:
        yield f"its CPU lacks {' '.join(lacking)}"
    if numeric(host.glibc) < numeric(needs.glibc):
        yield f"it has glibc {host.glibc}, {needs.glibc} is needed"
    if numeric(host.glibcxx) < numeric(needs.glibcxx):
        yield f"its libstdc++ ends at GLIBCXX_{host.glibcxx}, {needs.glibcxx} is needed"
    if needs.architecture and needs.driver:
        yield from gpu_misfits(needs.architecture, needs.driver, host)


def gpu_misfits(architecture: str, driver: str, host: Host) -> Iterator[str]:
    if host.gpu is None:
        yield f"it has no GPU, and the build is for sm_{architecture}"
        return
    if machine_code_for(host.gpu.compute) != architecture:
        yield f"its GPU is sm_{host.gpu.compute}, the build is for sm_{architecture}"
    if numeric(host.gpu.driver) < numeric(driver):
        yield f"its driver is {host.gpu.driver}, {driver} is needed"
