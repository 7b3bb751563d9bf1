"""What a build needs: of our own from what it says of itself, of others' from their files."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostwheel.artifact.binary import Binary, read_binary
from hostwheel.artifact.contents import measured
from hostwheel.artifact.facts import Artifact, Contents, Image, Member
from hostwheel.artifact.magic import is_elf
from hostwheel.artifact.native import Progress, no_progress
from hostwheel.audit.audit import read_once, reasons
from hostwheel.audit.cuda import driver_floor, majors
from hostwheel.audit.elf import brings, requirements
from hostwheel.audit.isa import needs_only_what_the_host_has
from hostwheel.audit.target import Target
from hostwheel.errors import BadInput
from hostwheel.facts.host import Host
from hostwheel.facts.inside import BUILD_INFO, IN_PACKAGE
from hostwheel.facts.policy import EVERYWHERE, nvidia_library
from hostwheel.facts.versions import numeric
from hostwheel.publish.catalog import Needs
from hostwheel.publish.entries import planned_needs
from hostwheel.user.doctor_site import OPENMP, Copy, Site, elsewhere, located
from hostwheel.user.findings import machine_code

SCHEMA = 1
CODE = re.compile(r"[^/]*(llama|ggml|mtmd)[^/]*")  # names of llama.cpp's libraries and programs
OTHER_CODE = (".dll", ".dylib", ".exe", ".pyd")


@dataclass(frozen=True, kw_only=True, slots=True)
class Library:
    """A library from outside that `user`, a file of the build, asks for.

    `path` is where the loader finds it, None where it does not; `near` are those of the same stem
    that lie in packages, whatever their version; `runpath` is where `user` has the loader look;
    `declared`: a dependency of the wheel brings it.
    """

    name: str
    user: str
    path: Path | None
    near: tuple[Path, ...] = ()
    runpath: tuple[Path, ...] = ()
    declared: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Build:
    """A build that is installed, or lies in a file.

    `needs.features` are our own builds'. Of others, `lacking` and `undecided` have a sentence for
    each file whose code uses what the host lacks, surely or perhaps. `cuda` are CUDA's libraries
    that it asks for, `openmp` the OpenMP runtimes that it asks for or ships, `lost` others that the
    loader does not find; `tags` are a wheel's. `empty`: nothing of llama.cpp is in it.
    """

    name: str
    where: Path
    ours: bool
    needs: Needs
    lacking: tuple[str, ...]
    undecided: tuple[str, ...]
    images: tuple[Image, ...]
    cuda: tuple[Library, ...]
    openmp: tuple[Library, ...]
    lost: tuple[Library, ...]
    tags: tuple[str, ...]
    empty: bool = False


def installed_build(copy: Copy, site: Site, host: Host, progress: Progress = no_progress) -> Build:
    """Of an installed package, without importing it."""
    contents = Contents(
        path=copy.folder,
        kind="folder",
        size=0,
        sha256=None,
        members=tuple(elf_members(copy)),
        nested=(),
        links={},
        wheel=None,
    )
    info = copy.folder / IN_PACKAGE
    name = " and ".join(copy.owners) or f"{copy.folder.name}, which nobody installed,"
    return read_build(contents, info if info.is_file() else None, name, site, host, progress)


def elf_members(copy: Copy) -> Iterator[Member]:
    """The package's, and what a repair put beside it (auditwheel's NAME.libs)."""
    beside = (copy.site / f"{owner.split()[0].replace('-', '_')}.libs" for owner in copy.owners)
    for folder in (copy.folder, *beside):
        for path in sorted(folder.rglob("*")):
            if is_elf(path):
                yield measured(path, path.relative_to(copy.site).as_posix())


def file_build(
    contents: Contents, site: Site, host: Host, progress: Progress = no_progress
) -> Build:
    """Of a wheel, archive, folder or library that was unpacked. BadInput for what is no build."""
    if not any(map(is_code, contents.members)):
        what = "none of its files is a library or program of it"
        raise BadInput(
            f"{contents.path}: no llama.cpp in it: {what}; give a wheel of llama_cpp, or an archive"
        )
    paths = {member.name: member.path for member in contents.members}
    name = contents.path.name
    return read_build(contents, paths.get(BUILD_INFO), name, site, host, progress)


def read_build(
    contents: Contents, info: Path | None, name: str, site: Site, host: Host, progress: Progress
) -> Build:
    binaries = {
        member: read_binary(member.path) for member in contents.members if is_elf(member.path)
    }
    judged = of_info(read_info(info)) if info else of_code(contents, binaries, host, progress)
    outside = tuple(libraries(contents, binaries, site))
    return Build(
        name=name,
        where=contents.path,
        ours=info is not None,
        needs=judged.needs,
        lacking=judged.lacking,
        undecided=judged.undecided,
        images=judged.images,
        cuda=tuple(each for each in outside if nvidia_library(each.name)),
        openmp=tuple(each for each in outside if OPENMP.fullmatch(each.name)),
        lost=tuple(each for each in outside if is_lost(each)),
        tags=contents.wheel.tags if contents.wheel else (),
        empty=not any(map(is_code, contents.members)),
    )


def is_code(member: Member) -> bool:
    """By its name, and by what it is: a model or a page may be named so too."""
    name = member.path.name
    named = CODE.fullmatch(name) is not None
    return named and (name.endswith(OTHER_CODE) or is_elf(member.path))


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    needs: Needs
    lacking: tuple[str, ...]
    undecided: tuple[str, ...]
    images: tuple[Image, ...]


def read_info(file: Path) -> Mapping[str, Any]:
    try:
        info: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadInput(f"{file}: is not JSON ({error}); install the wheel again") from None
    if info.get("schema") != SCHEMA:
        found = f"has schema {info.get('schema')}, this hostwheel reads {SCHEMA}"
        raise BadInput(f"{file}: {found}: use a newer one")
    return info


def of_info(info: Mapping[str, Any]) -> Judged:
    needs = planned_needs(info)
    images = (machine_code(needs.architecture),) if needs.architecture else ()
    return Judged(needs=needs, lacking=(), undecided=(), images=images)


def of_code(
    contents: Contents, binaries: Mapping[Member, Binary], host: Host, progress: Progress
) -> Judged:
    """By reading every instruction and every GPU image; seconds for a large build."""
    files = read_once(contents.members, None, progress)
    artifact = Artifact(contents=contents, files=files)
    found = tuple(needs_only_what_the_host_has(artifact, Target(host=host)))
    floor = driver_floor(artifact, host.gpu.compute if host.gpu else None)
    major = max(majors(artifact).values(), default=None)
    needs = Needs(
        features=(),
        cuda=None if major is None else str(major),
        architecture=None,
        driver=floor.driver if floor else None,
        glibc=newest("GLIBC", binaries.values()),
        glibcxx=newest("GLIBCXX", binaries.values()),
    )
    return Judged(
        needs=needs,
        lacking=tuple(reasons(each for each in found if each.standing == "refused")),
        undecided=tuple(
            reasons(each for each in found if each.standing in ("undecided", "not covered"))
        ),
        images=tuple(image for file in files for image in file.images),
    )


def newest(prefix: str, binaries: Iterable[Binary]) -> str:
    return max((each.versions.get(prefix, "0") for each in binaries), key=numeric, default="0")


def libraries(
    contents: Contents, binaries: Mapping[Member, Binary], site: Site
) -> Iterator[Library]:
    """All that are not shipped, and OpenMP runtimes, each once, for the first file that asks."""
    required = tuple(requirements(Artifact(contents=contents, files=()), Target()))
    shipped = {member.path.name: member.path for member in contents.members}
    seen: set[str] = set()
    for member, binary in binaries.items():
        for name in binary.needed:
            nvidia = nvidia_library(name)
            if name in seen or (name in shipped and not OPENMP.fullmatch(name)):
                continue
            seen.add(name)
            runpath = resolved(binary.runpath, member.path.parent)
            yield Library(
                name=name,
                user=member.path.name,
                path=shipped.get(name) or located(name, runpath, site),
                runpath=runpath,
                near=elsewhere(name.partition(".so")[0], site),
                declared=nvidia is not None and any(brings(each, *nvidia) for each in required),
            )


def is_lost(library: Library) -> bool:
    known = nvidia_library(library.name) or OPENMP.fullmatch(library.name)
    return library.path is None and library.name not in EVERYWHERE and not known


def resolved(runpath: Sequence[str], origin: Path) -> tuple[Path, ...]:
    texts = (each.replace("${ORIGIN}", "$ORIGIN") for each in runpath)
    return tuple(Path(each.replace("$ORIGIN", str(origin))) for each in texts)
