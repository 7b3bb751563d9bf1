"""What an ELF file asks of the loader: search paths, versions, other libraries."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet

from hostwheel.artifact.facts import Artifact, Contents, File
from hostwheel.audit.loader import (
    Users,
    by_needed,
    elf_files,
    inherited,
    loaded_here,
    place,
    search_path,
    searched,
)
from hostwheel.audit.result import Finding, Standing
from hostwheel.audit.target import Target
from hostwheel.facts.policy import DRIVER, EVERYWHERE, MANYLINUX, OFTEN, nvidia_library
from hostwheel.facts.versions import numeric

MANYLINUX_TAG = re.compile(r"manylinux_(\d+)_(\d+)_x86_64")
OLD_MANYLINUX = {"manylinux1_": "2.5", "manylinux2010_": "2.12", "manylinux2014_": "2.17"}


def finds_its_libraries_from_where_it_lies(artifact: Artifact, target: Target) -> Iterator[Finding]:
    """RUNPATH is $ORIGIN-relative, and no path of the build machine is in the files.

    An absolute RUNPATH finds whatever lies there on the user's machine, or nothing: then a
    backend is missing without a word, and the CPU does the work. Paths of the build machine in
    strings tell about it, and make two builds differ. Set CMAKE_INSTALL_RPATH to $ORIGIN paths,
    CMAKE_BUILD_WITH_INSTALL_RPATH=ON, and compile with -ffile-prefix-map.
    """
    planned = target.plan.runpath if target.plan else None
    for file in elf_files(artifact):
        runpath = search_path(file)
        for entry in runpath:
            if not entry.startswith(("$ORIGIN", "${ORIGIN}")):
                message = f"RUNPATH {entry or '(the working directory)'} is not $ORIGIN-relative"
                yield noted(file, message, "link it with -rpath '$ORIGIN'")
        if planned is not None and runpath != planned:
            message = f"RUNPATH {':'.join(runpath) or 'none'}, planned is {':'.join(planned)}"
            yield noted(file, message, "see HOSTWHEEL_RUNPATH in the plan")
        if paths := [each for each in file.native.paths if each not in runpath]:
            more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
            message = f"holds a path of the build machine: {paths[0]}{more}"
            yield noted(file, message, "compile with -ffile-prefix-map")


def noted(file: File, message: str, remedy: str) -> Finding:
    return Finding(
        check="ELF001", standing="noted", file=file.member.name, message=message, remedy=remedy
    )


def asks_for_no_newer_libc(artifact: Artifact, target: Target) -> Iterator[Finding]:
    """GLIBC and GLIBCXX versions fit the host and the platform tag.

    The loader refuses a file that asks for a version newer than the installed library's, and a
    tag that promises an older glibc makes pip install it there. libstdc++ is the higher floor
    more often than glibc. Build on a system no newer than the oldest host.
    """
    yield from other_systems(artifact)
    promised = promised_glibc(artifact.contents)
    host = target.host
    floors = {"GLIBC": host.glibc, "GLIBCXX": host.glibcxx} if host else {}
    for file in loaded_here(artifact):
        for prefix, floor in floors.items():
            found = file.native.versions.get(prefix)
            if found and numeric(found) > numeric(floor):
                yield too_new(file, f"needs {prefix}_{found}, {target.name} has {floor}")
        found = file.native.versions.get("GLIBC")
        if found and promised and numeric(found) > numeric(promised):
            yield too_new(file, f"needs GLIBC_{found}, the wheel's tag promises {promised}")


def other_systems(artifact: Artifact) -> Iterator[Finding]:
    for form in ("PE", "Mach-O"):
        count = len({file.member for file in artifact.files if file.native.format == form})
        if count:
            yield Finding(
                check="ELF002",
                standing="noted",
                message=f"{count} {form} files: compared by their instructions alone",
                remedy="",
                reason="a host file says what a Linux system offers, not Windows or macOS",
            )


def too_new(file: File, message: str) -> Finding:
    return Finding(
        check="ELF002",
        standing="refused",
        file=file.member.name,
        message=message,
        remedy="build on an older system, or take a newer host",
    )


def promised_glibc(contents: Contents) -> str | None:
    """The oldest glibc that the wheel's tags admit; None where they say nothing of glibc."""
    found = []
    for tag in contents.wheel.tags if contents.wheel else ():
        platform = tag.rpartition("-")[2]
        if match := MANYLINUX_TAG.fullmatch(platform):
            found.append(f"{match[1]}.{match[2]}")
        found += [version for old, version in OLD_MANYLINUX.items() if platform.startswith(old)]
    return min(found, key=numeric, default=None)


def everything_it_needs_is_there(artifact: Artifact, target: Target) -> Iterator[Finding]:
    """Every needed library is in the artifact, declared as a dependency, or on every Linux.

    The loader gives up at the first library that it cannot find. libcuda comes with the driver
    alone, so a file that needs it cannot be imported where there is none; NCCL and OpenSSL get in
    when the build machine has them. Ship it beside the file, declare the wheel that brings it
    with a RUNPATH that leads there, or switch off what needs it.
    """
    shipped = shipped_libraries(artifact)
    required = tuple(requirements(artifact, target))
    users = by_needed(artifact)
    for file in loaded_here(artifact):
        for needed in file.native.needed:
            if needed in EVERYWHERE:
                continue
            if needed in shipped:
                found = unreachable(file, needed, shipped[needed], users)
            else:
                found = missing(artifact, target, file, needed, required)
            yield from found


def shipped_libraries(artifact: Artifact) -> dict[str, set[str]]:
    """File name → the folders it is in; links count."""
    folders: dict[str, set[str]] = {}
    for name in chain(map(place, artifact.files), artifact.contents.links):
        folder, _, last = name.rpartition("/")
        folders.setdefault(last, set()).add(folder)
    return folders


def requirements(artifact: Artifact, target: Target) -> Iterator[Requirement]:
    wheel = artifact.contents.wheel
    for line in (
        *(wheel.requires if wheel else ()),
        *(target.plan.requires if target.plan else ()),
    ):
        try:
            yield Requirement(line)
        except InvalidRequirement:
            continue  # WHL001 says so


def unreachable(file: File, needed: str, folders: set[str], users: Users) -> Iterator[Finding]:
    """It is shipped, but the loader would not look there."""
    if folders.isdisjoint(searched(file)) and not inherited(file, folders, users):
        where = ", ".join(sorted(folders)) or "the top folder"
        yield need(
            file,
            f"needs {needed}, which is in {where}, where its RUNPATH does not lead",
            standing="undecided",
            reason="found only if the process has loaded it before, or by LD_LIBRARY_PATH",
        )


def missing(
    artifact: Artifact, target: Target, file: File, needed: str, required: Iterable[Requirement]
) -> Iterator[Finding]:
    """It is not shipped: who else could bring it?"""
    if nvidia := nvidia_library(needed):
        distribution, major = nvidia
        if any(brings(requirement, distribution, major) for requirement in required):
            yield from without_way(artifact, file, needed)
            return
    if needed in DRIVER:
        yield driver_needed(target, file, needed)
    elif needed in MANYLINUX:
        yield need(file, f"needs {needed}", "noted", "manylinux lists it; bare systems lack it")
    elif artifact.contents.kind == "file":
        yield need(file, f"needs {needed}", "undecided", "it is audited without its neighbours")
    elif needed in OFTEN:
        yield need(file, f"needs {needed}", "undecided", "most systems have it, bare ones do not")
    elif others := sorted(each.name for each in required if not each.name.startswith("nvidia-")):
        reason = f"it may come with one of its dependencies: {', '.join(others[:4])}"
        yield need(file, f"needs {needed}", "undecided", reason)
    elif nvidia and artifact.contents.wheel is None:
        reason = "an archive declares no dependencies; CUDA's libraries have to be put beside it"
        yield need(file, f"needs {needed}", "undecided", reason)
    else:
        yield need(file, f"needs {needed}, which nobody provides", "refused", None)


def brings(requirement: Requirement, distribution: str, major: int) -> bool:
    """Whether a dependency is the distribution of this library, in this major version."""
    if requirement.name == f"{distribution}-cu{major}":
        return True
    return requirement.name == distribution and admits(requirement.specifier, major)


def admits(specifier: SpecifierSet, major: int) -> bool:
    """Whether some version of this major is admitted: one that is pinned, or any that may exist."""
    pinned = [each.version for each in specifier if each.operator in ("==", "===", "~=")]
    possible = [f"{major}.{minor}.{patch}" for minor in range(20) for patch in (0, 99)]
    return any(
        specifier.contains(version)
        for version in (*pinned, *possible)
        if version.split(".")[0] == str(major)
    )


def without_way(artifact: Artifact, file: File, needed: str) -> Iterator[Finding]:
    """A declared CUDA library that RUNPATH does not lead to."""
    is_wheel = artifact.contents.kind == "wheel"
    if is_wheel and not any(folder.startswith("nvidia/") for folder in searched(file)):
        yield need(
            file,
            f"needs {needed}; no RUNPATH leads into site-packages/nvidia",
            standing="undecided",
            reason="found only if the process has loaded it before",
        )


def driver_needed(target: Target, file: File, needed: str) -> Finding:
    message = f"needs {needed}, which only NVIDIA's driver brings"
    if target.plan or (target.host and target.host.gpu is None):
        return need(file, message, "refused", "it cannot be loaded on a machine without a driver")
    if target.host:
        return need(file, message, "dismissed", f"{target.name} has a driver")
    return need(file, message, "undecided", "it cannot be loaded on a machine without a driver")


def need(file: File, message: str, standing: Standing, reason: str | None) -> Finding:
    return Finding(
        check="ELF003",
        standing=standing,
        file=file.member.name,
        message=message,
        remedy="ship it, declare the wheel that brings it, or switch off what needs it",
        reason=reason,
    )
