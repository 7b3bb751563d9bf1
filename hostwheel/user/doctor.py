"""Whether a build can run on this machine, and why not. Pure: values in, findings out."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging import tags

from hostwheel.facts.policy import DRIVER, nvidia_library
from hostwheel.user import findings
from hostwheel.user.capture_host import host_of
from hostwheel.user.capture_machine import Machine
from hostwheel.user.doctor_build import Build, Library
from hostwheel.user.doctor_site import Copy, Site
from hostwheel.user.findings import (
    PASS_THROUGH,
    PICK,
    Finding,
    Standing,
    driver,
    glibc,
    glibcxx,
    gpu_code,
)

HIDES_ALL = ("", "-1", "NoDevFiles")
SHOWN = 3
INTO_LIB = "pip install --target lib"  # to lib/nvidia/cu13/lib, where RUNPATH leads
BUNDLE = "`hostwheel bundle`, which brings it"
OWN = re.compile(r"lib(ggml|llama|mtmd)[\w.-]*\.so")  # shipped with every build that needs it
CORE = re.compile(r"lib(ggml|ggml-base|llama)\.so")


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A build on a machine. `copy` is where it is installed, None for one that lies in a file;
    `python` the version that imports it."""

    machine: Machine
    build: Build
    site: Site
    copy: Copy | None
    python: str


Check = Callable[[Case], Iterator[Finding]]


def diagnose(case: Case) -> tuple[Finding, ...]:
    """Everything that was looked at, in the order in which one thing hides the next."""
    return tuple(finding for check in CHECKS for finding in check(case))


def wheel_tag(case: Case) -> Iterator[Finding]:
    """pip's own question, before any file is looked at."""
    if not case.build.tags:
        return
    major, minor = (int(part) for part in case.python.split(".")[:2])
    platforms = sorted({each.rpartition("-")[2] for each in case.build.tags})
    ours = [each for each in platforms if runs_here(each, case.machine)]
    fitting = {str(tag) for tag in tags.cpython_tags((major, minor), platforms=ours)}
    fitting |= {str(tag) for tag in tags.compatible_tags((major, minor), platforms=ours)}
    if not ours:
        message = f"is for {' or '.join(platforms)}, this is {own_platform(case.machine)}"
        yield Finding(check="wheel", standing="stops", message=message, remedy=PICK)
    elif fitting.isdisjoint(case.build.tags):
        message = f"is for {case.build.tags[0]}, not for Python {major}.{minor}"
        yield Finding(check="wheel", standing="stops", message=message, remedy=PICK)


def runs_here(platform: str, machine: Machine) -> bool:
    """The glibc in a manylinux tag is compared later, with what the files really ask for."""
    own = "musllinux" if machine.glibc is None else "manylinux"
    linux = platform.startswith((own, "linux_")) and platform.endswith("x86_64")
    return linux or platform == "any"


def own_platform(machine: Machine) -> str:
    return f"Linux on x86-64 with {'another C library' if machine.glibc is None else 'glibc'}"


def cpu(case: Case) -> Iterator[Finding]:
    build = case.build
    if build.ours:
        yield findings.cpu(host_of(case.machine), build.needs)
        return
    for sentence in build.lacking:
        message, remedy = f"{sentence}, which the CPU here lacks", f"{PICK}; {PASS_THROUGH}"
        yield Finding(check="CPU", standing="stops", message=message, remedy=remedy)
    for sentence in build.undecided:
        message = f"{sentence}, which is not here; whether it asks before is not proved"
        remedy = "try it; if it ends with Illegal instruction: " + PICK
        yield Finding(check="CPU", standing="undecided", message=message, remedy=remedy)
    if not build.lacking and not build.undecided:
        message = "nothing in its code needs what this CPU lacks"
        yield Finding(check="CPU", standing="well", message=message)


def c_library(case: Case) -> Iterator[Finding]:
    yield glibc(host_of(case.machine), case.build.needs.glibc)


def cxx_library(case: Case) -> Iterator[Finding]:
    yield glibcxx(host_of(case.machine), case.build.needs.glibcxx)


def gpu_driver(case: Case) -> Iterator[Finding]:
    """Asked only of a build for GPUs. A driver without a GPU is one that does not work."""
    graphics = case.machine.graphics
    if not case.build.images:
        return
    if graphics.driver and not graphics.gpus:
        yield Finding(
            check="driver",
            standing="stops",
            message=f"driver {graphics.driver} is loaded, but does not answer: {graphics.problem}",
            remedy="in a container: docker run --gpus all …; after an update of the driver: reboot",
        )
    yield from driver(host_of(case.machine), case.build.needs.driver)


def gpu(case: Case) -> Iterator[Finding]:
    if not case.build.images:
        return
    gpus = case.machine.graphics.gpus
    hosts = [host_of(case.machine, at) for at in range(len(gpus))] or [host_of(case.machine)]
    told = dict.fromkeys(gpu_code(host, case.build.images) for host in hosts)
    yield from told
    if gpus and case.site.visible in HIDES_ALL:
        message = f"CUDA_VISIBLE_DEVICES is {case.site.visible!r}, which hides every GPU"
        remedy = "unset CUDA_VISIBLE_DEVICES"
        yield Finding(check="GPU code", standing="slows", message=message, remedy=remedy)


def cuda_libraries(case: Case) -> Iterator[Finding]:
    for library in case.build.cuda:
        if case.copy is None and library.declared:
            message = f"{library.name} comes with a dependency of the wheel"
            yield Finding(check="CUDA", standing="well", message=message)
        elif library.path:
            message = f"{library.name} is {library.path}"
            yield Finding(check="CUDA", standing="well", message=message)
        else:
            yield missing(library, in_archive=case.copy is None and not case.build.tags)


def missing(library: Library, in_archive: bool) -> Finding:
    """`in_archive`: its loader does not look into Python's packages."""
    message = f"{library.user} needs {library.name}, and the loader finds none"
    lost = next((path for path in library.near if path.name == library.name), None)
    if lost:
        message += f"; it lies in {lost.parent}, where nothing leads"
        remedy = f"export LD_LIBRARY_PATH={lost.parent}"
    else:
        if library.near:
            message += f"; there is {', '.join(path.name for path in library.near)}"
        wanted = f'"{package(library.name)}"'
        remedy = for_archive(library, wanted) if in_archive else f"pip install {wanted}"
    return Finding(check="CUDA", standing="stops", message=message, remedy=remedy)


def for_archive(library: Library, wanted: str) -> str:
    if any("nvidia" in folder.parts for folder in library.runpath):
        return f"in the unpacked archive's folder: {INTO_LIB} {wanted}; or {BUNDLE}"
    return f"export LD_LIBRARY_PATH=FOLDER, that of {library.name}: {INTO_LIB} {wanted} brings it"


def package(name: str) -> str:
    """The requirement that brings a CUDA library."""
    distribution, major = nvidia_library(name) or (name, 0)
    return f"{distribution}-cu{major}" if major == 12 else f"{distribution}>={major},<{major + 1}"


def other_libraries(case: Case) -> Iterator[Finding]:
    """Not decided: a plug-in such as libggml-vulkan.so is left out where it does not load. Without
    a part of its own, or what libllama and libggml themselves need, nothing runs."""
    for library in case.build.lost:
        message = f"{library.user} needs {library.name}, which is not here: it cannot be loaded"
        if OWN.match(library.name):
            yield Finding(check="libraries", standing="stops", message=message, remedy=again(case))
            continue
        standing: Standing = "stops" if CORE.match(library.user) else "undecided"
        driver = "install NVIDIA's driver, or take a build that does without it: " + PICK
        remedy = driver if library.name in DRIVER else f"apt-file search {library.name}"
        yield Finding(check="libraries", standing=standing, message=message, remedy=remedy)


def whole(case: Case) -> Iterator[Finding]:
    """A library that RECORD names and nobody asks for may be a plug-in, which is missed later."""
    lost = {library.name for library in case.build.lost}
    gone = [name for name in (case.copy.gone if case.copy else ()) if Path(name).name not in lost]
    if gone:
        more = f" and {len(gone) - 1} more" if gone[1:] else ""
        message = f"{gone[0]}{more}, which was installed with it, is no longer there"
        yield Finding(check="files", standing="stops", message=message, remedy=again(case))
    elif case.build.empty:
        message = f"no library of llama.cpp is in {case.build.where}"
        yield Finding(check="files", standing="stops", message=message, remedy=again(case))


def again(case: Case) -> str:
    if case.copy and not case.copy.owners:
        return f"move {case.copy.folder} away"
    if case.copy:
        names = " ".join(owner.split()[0] for owner in case.copy.owners)
        return f"install it again: pip uninstall -y {names}, then {PICK}"
    return "fetch or unpack it again"


def shadows(case: Case) -> Iterator[Finding]:
    """Two distributions in one folder have overwritten each other; of two folders of one name
    Python imports the first; two names in one process load two sets of ggml's libraries."""
    if case.copy is None:
        return
    if len(case.copy.owners) > 1:
        names = [owner.split()[0] for owner in case.copy.owners]
        yield Finding(
            check="copies",
            standing="stops",
            message=f"{' and '.join(case.copy.owners)} have overwritten each other's files",
            remedy=f"pip uninstall -y {' '.join(names)}, then {PICK}",
        )
    for other in case.site.copies:
        if other.folder == case.copy.folder:
            continue
        yield shadow(case.copy, other)


def shadow(taken: Copy, other: Copy) -> Finding:
    who = other.owners[0] if other.owners else "a folder"
    remedy = f"pip uninstall {other.owners[0].split()[0]}" if other.owners else "move it away"
    if other.folder.name == taken.folder.name and other.owners and not taken.owners:
        message = f"{taken.folder}, which nobody installed, hides {other.folder} ({who})"
        remedy = f"move {taken.folder} away"
        return Finding(check="copies", standing="slows", message=message, remedy=remedy)
    if other.folder.name == taken.folder.name:
        message = f"there is another in {other.folder} ({who}); this one is imported"
        return Finding(check="copies", standing="slows", message=message, remedy=remedy)
    message = f"{other.folder.name} ({who}) brings ggml's libraries a second time"
    return Finding(check="copies", standing="noted", message=message, remedy=remedy)


def cpu_only(case: Case) -> Iterator[Finding]:
    gpus = case.machine.graphics.gpus
    if gpus and not case.build.images:
        message = f"was built for the CPU alone, and there is {gpus[0].name}"
        yield Finding(check="GPU code", standing="slows", message=message, remedy=PICK)


def threads(case: Case) -> Iterator[Finding]:
    runtimes = case.build.openmp
    if not runtimes:
        message = "starts its own threads, without an OpenMP runtime"
        yield Finding(check="threads", standing="well", message=message)
    for runtime in runtimes:
        yield thread_runtime(runtime, case.site)


def thread_runtime(runtime: Library, site: Site) -> Finding:
    if runtime.path is None:
        remedy = "apt-get install libgomp1" if "gomp" in runtime.name else PICK
        message = f"{runtime.user} needs {runtime.name}, which is not installed"
        return Finding(check="threads", standing="stops", message=message, remedy=remedy)
    others = [path for path in site.openmp if path != runtime.path]
    if others:
        told = ", ".join(map(str, others[:SHOWN]))
        message = f"uses {runtime.path}; in one process with {told} that is one too many"
        remedy = f"take a build with threads of its own: {PICK}"
        return Finding(check="threads", standing="slows", message=message, remedy=remedy)
    return Finding(check="threads", standing="noted", message=f"uses {runtime.path}")


CHECKS: Sequence[Check] = (
    wheel_tag,
    cpu,
    c_library,
    cxx_library,
    gpu_driver,
    gpu,
    cuda_libraries,
    other_libraries,
    whole,
    shadows,
    cpu_only,
    threads,
)
