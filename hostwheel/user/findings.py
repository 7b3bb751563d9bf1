"""What keeps a build from a machine, in plain words. Pure: a host and what is needed in, findings
out, in the order in which one thing hides the next."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from hostwheel.artifact.facts import Image
from hostwheel.audit.cuda import listed, runs_on
from hostwheel.facts.host import Host
from hostwheel.facts.isa import beyond
from hostwheel.facts.versions import numeric
from hostwheel.publish.catalog import Needs
from hostwheel.user.capture_text import NO_GLIBC, NO_GLIBCXX

# "stops": it does not run here, or not on the GPU that it is for. "slows": it runs, and another
# build would run faster. "undecided": only running it tells.
Standing = Literal["stops", "slows", "undecided", "noted", "well"]

PICK = "hostwheel pick URL --install"
PASS_THROUGH = "in a virtual machine, have it show the CPU's own (libvirt: host-passthrough)"

# GCC's libstdc++ manual, "ABI Policy and Guidelines": the release that brought a symbol version.
GCC_OF: Mapping[str, str] = MappingProxyType(
    {"3.4.29": "11", "3.4.30": "12", "3.4.31": "13.1", "3.4.32": "13.2", "3.4.33": "14"}
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """`remedy` is a command, or a sentence with one; empty where nothing has to be done."""

    check: str
    standing: Standing
    message: str
    remedy: str = ""


def of_needs(host: Host, needs: Needs) -> Iterator[Finding]:
    """All that can be said from a catalog's line."""
    yield cpu(host, needs)
    yield glibc(host, needs.glibc)
    yield glibcxx(host, needs.glibcxx)
    if needs.architecture:
        yield from driver(host, needs.driver)
        yield gpu_code(host, (machine_code(needs.architecture),))


def cpu(host: Host, needs: Needs) -> Finding:
    lacking = beyond(needs.features, host.cpu.features)
    if lacking:
        return Finding(
            check="CPU",
            standing="stops",
            message=f"the CPU here lacks {' '.join(lacking)}",
            remedy=f"{PICK}; {PASS_THROUGH}",
        )
    what = " ".join(needs.features) or "nothing beyond x86-64"
    return Finding(check="CPU", standing="well", message=f"needs {what}: all there")


def glibc(host: Host, needed: str) -> Finding:
    if host.glibc == NO_GLIBC:
        return Finding(
            check="glibc",
            standing="stops",
            message=f"needs glibc {needed}; the C library here is another (musl, as in Alpine)",
            remedy="use a system with glibc, such as the image debian:12",
        )
    if numeric(needed) > numeric(host.glibc):
        return Finding(
            check="glibc",
            standing="stops",
            message=f"needs glibc {needed}, here is {host.glibc}",
            remedy=f"{PICK}, or build it on an older system: hostwheel build RECIPE --engine auto",
        )
    return Finding(
        check="glibc", standing="well", message=f"needs {needed} or newer, here is {host.glibc}"
    )


def glibcxx(host: Host, needed: str) -> Finding:
    if host.glibcxx == NO_GLIBCXX and numeric(needed) > (0,):
        return Finding(
            check="libstdc++",
            standing="stops",
            message="libstdc++.so.6 is not installed",
            remedy="apt-get install libstdc++6",
        )
    if numeric(needed) > numeric(host.glibcxx):
        of_gcc = f" (GCC {GCC_OF[needed]})" if needed in GCC_OF else ""
        return Finding(
            check="libstdc++",
            standing="stops",
            message=f"needs GLIBCXX_{needed}{of_gcc}, here is GLIBCXX_{host.glibcxx}",
            remedy=f"{PICK}, or in conda: conda install -c conda-forge libstdcxx",
        )
    return Finding(
        check="libstdc++",
        standing="well",
        message=f"needs GLIBCXX_{needed}, here is GLIBCXX_{host.glibcxx}",
    )


def driver(host: Host, floor: str | None) -> Iterator[Finding]:
    """By exact version: 580.65 does for CUDA 13.0 and not for what came with a later 580."""
    if host.gpu is None or floor is None:
        return
    has = host.gpu.driver
    if numeric(floor) > numeric(has):
        yield Finding(
            check="driver",
            standing="stops",
            message=f"needs NVIDIA driver {floor} or newer, here is {has}",
            remedy=f"install driver {floor} or newer, or take a build for an older CUDA: {PICK}",
        )
    else:
        yield Finding(
            check="driver", standing="well", message=f"needs {floor} or newer, here is {has}"
        )


def gpu_code(host: Host, images: tuple[Image, ...]) -> Finding:
    has = listed(images)
    if host.gpu is None:
        return Finding(
            check="GPU code",
            standing="slows",
            message=f"has GPU code ({has}), and there is no NVIDIA GPU here: it runs on the CPU",
            remedy=PICK,
        )
    card = f"{host.gpu.name} (sm_{host.gpu.compute})"
    if not any(runs_on(image, host.gpu.compute) for image in images):
        return Finding(
            check="GPU code",
            standing="stops",
            message=f"has code for {has}, which {card} cannot run",
            remedy=PICK,
        )
    return Finding(check="GPU code", standing="well", message=f"has {has}, which {card} runs")


def machine_code(architecture: str) -> Image:
    """Machine code for "86" or "120a", of which nothing else is known."""
    return Image(kind="cubin", sm=architecture, compressed=False, size=0, version="", section="")
