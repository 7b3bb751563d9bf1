"""A wheel as a package: its accounts of itself, and what lies in it."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from hostwheel.artifact.facts import Artifact, Contents, WheelFacts
from hostwheel.audit.result import Finding, Standing
from hostwheel.audit.target import Target
from hostwheel.facts.policy import BUDGET_BYTES, DRIVER, LEAKED_FOLDERS, NVIDIA
from hostwheel.plan.plan import Plan

GRAFTED = re.compile(r"(-[0-9a-f]{6,})?\.so[.\d]*$")
SHOWN = 5  # differences of one kind that are named


def says_one_thing(artifact: Artifact, target: Target) -> Iterator[Finding]:
    """File name, METADATA, dist-info and tags agree, and RECORD holds for every member.

    A wheel that was renamed to carry another version keeps its METADATA: pip and uv discard it
    from an index, or install it again and again. Set the version before the build; unpack and
    pack a wheel with `wheel unpack` and `wheel pack`, never with zip alone.
    """
    wheel = artifact.contents.wheel
    said = [*(disagreements(wheel) if wheel else ()), *(against_plan(artifact, target.plan))]
    for message in said:
        yield Finding(
            check="WHL001",
            standing="refused",
            message=message,
            remedy="build it again with the right version; a wheel is never renamed",
        )


def disagreements(wheel: WheelFacts) -> Iterator[str]:
    yield from wheel.problems
    if len(wheel.infos) != 1:
        yield f"{len(wheel.infos)} dist-info folders, expected one"
    if wheel.name:
        yield from other_names(wheel)
    yield from shortened(wheel.record)


def other_names(wheel: WheelFacts) -> Iterator[str]:
    """The file name parses: compare the other accounts with it."""
    if wheel.metadata_name and canonicalize_name(wheel.metadata_name) != wheel.name:
        yield f"the file name says {wheel.name}, METADATA says {wheel.metadata_name}"
    if wheel.metadata_version and not same_version(wheel.metadata_version, wheel.version):
        yield f"the file name says {wheel.version_text}, METADATA says {wheel.metadata_version}"
    for info in wheel.infos:
        name, _, version = info.removesuffix(".dist-info").rpartition("-")
        if canonicalize_name(name) != wheel.name or not same_version(version, wheel.version):
            yield f"the file name says {wheel.name} {wheel.version_text}, the folder is {info}"
    if wheel.wheel_tags and set(expanded(wheel.wheel_tags)) != set(wheel.tags):
        told, found = " ".join(sorted(wheel.tags)), " ".join(sorted(wheel.wheel_tags))
        yield f"the file name says {told}, WHEEL says {found}"
    for line in wheel.requires:
        try:
            Requirement(line)
        except InvalidRequirement as error:
            yield f"METADATA requires {line!r}, which is no requirement: {error}"


def same_version(one: str, other: str) -> bool:
    try:
        return Version(one) == Version(other)
    except InvalidVersion:
        return False


def expanded(tags: Sequence[str]) -> Iterator[str]:
    """`py2.py3-none-any` stands for two tags."""
    for tag in tags:
        parts = [part.split(".") for part in tag.split("-")]
        if len(parts) == 3:
            yield from (
                f"{py}-{abi}-{os}" for py in parts[0] for abi in parts[1] for os in parts[2]
            )


def shortened(differences: Sequence[str]) -> Iterator[str]:
    yield from differences[:SHOWN]
    if len(differences) > SHOWN:
        yield f"and {len(differences) - SHOWN} more differences between RECORD and the members"


def against_plan(artifact: Artifact, plan: Plan | None) -> Iterator[str]:
    """What a plan says of file name, version, tag and requirements."""
    contents = artifact.contents
    if plan is None:
        return
    planned = plan.wheel if contents.kind == "wheel" else plan.archive
    if contents.kind != "folder" and contents.path.name != planned:
        yield f"the file is named {contents.path.name}, planned is {planned}"
    if wheel := contents.wheel:
        yield from planned_metadata(wheel, plan)


def planned_metadata(wheel: WheelFacts, plan: Plan) -> Iterator[str]:
    if wheel.metadata_version != plan.version:
        yield f"METADATA has version {wheel.metadata_version}, planned is {plan.version}"
    if wheel.wheel_tags != (f"py3-none-{plan.platform_tag}",):
        found = " ".join(wheel.wheel_tags) or "none"
        yield f"WHEEL has tags {found}, planned is py3-none-{plan.platform_tag}"
    required, planned = parsed(wheel.requires), parsed(plan.requires)
    for lacking in sorted(planned - required, key=str):
        yield f"METADATA does not require {lacking}"
    for extra in sorted(required - planned, key=str):
        if extra.name.startswith("nvidia-"):
            yield f"METADATA requires {extra}, which is not planned"


def parsed(lines: Sequence[str]) -> set[Requirement]:
    found = set()
    for line in lines:
        try:
            found.add(Requirement(line))
        except InvalidRequirement:
            continue  # named above
    return found


def holds_each_thing_once(artifact: Artifact, target: Target) -> Iterator[Finding]:
    """No two members have the same bytes, and nothing is in it that does not belong there.

    A wheel has no symbolic links: libx.so, libx.so.0 and libx.so.0.1 are three copies, and three
    libraries for the loader. CMake's install rules leave bin, include and lib at the top of
    site-packages, where wheels overwrite each other. Build with
    CMAKE_PLATFORM_NO_VERSIONED_SONAME=ON, and install by component.
    """
    contents = artifact.contents
    for names, size in twins(contents):
        message = f"{len(names)} times the same {size:,} bytes: {', '.join(names)}"
        yield note(message, "ship it once")
    yield from grafted(contents)
    if contents.wheel:
        yield from leaked(contents)
    if contents.size > BUDGET_BYTES:
        message = f"{contents.size:,} bytes; the registry takes {BUDGET_BYTES:,} by default"
        yield note(message, "compile for fewer GPU architectures")
    if target.plan and contents.wheel:
        yield from unplanned(contents, target.plan)


def twins(contents: Contents) -> Iterator[tuple[list[str], int]]:
    """Members with the same bytes; empty ones are excused."""
    alike: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    for member in contents.members:
        if member.size:
            alike[member.sha256, member.size].append(member.name)
    for (_, size), names in alike.items():
        if len(names) > 1:
            yield sorted(names), size


def grafted(contents: Contents) -> Iterator[Finding]:
    """CUDA's libraries, copied in by a repair tool under names of its own (libcudart-1a2b3c.so.13).

    The driver's own do not work with another driver.
    """
    for member in contents.members:
        stem = GRAFTED.sub("", member.name.rpartition("/")[2])
        if f"{stem}.so.1" in DRIVER:
            message = f"bundles {stem}, which works with its own driver only"
            yield note(message, "leave it out", file=member.name, standing="refused")
        elif stem in NVIDIA:
            message = f"bundles {stem}, which {NVIDIA[stem]} brings"
            yield note(message, "declare it as a dependency", file=member.name)


def leaked(contents: Contents) -> Iterator[Finding]:
    tops = {member.name.split("/")[0] for member in contents.members if "/" in member.name}
    for top in sorted(tops & LEAKED_FOLDERS):
        message = f"a folder {top}/ at the top of site-packages"
        yield note(message, "install by component, into the package's own folder", file=top)


def unplanned(contents: Contents, plan: Plan) -> Iterator[Finding]:
    """Exactly the planned programs and libraries; Python and dist-info beside them."""
    base = f"llama_cpp_python-{plan.version}"
    names = {member.name for member in contents.members}
    for name in sorted(plan.native_members - names):
        yield note(f"{name} is missing", "see the log of the build", file=name, standing="refused")
    for name in sorted(names - plan.native_members):
        if not name.startswith((f"{base}.dist-info/", "llama_cpp/hostwheel/")) and not (
            name.startswith("llama_cpp/") and name.endswith((".py", "/py.typed"))
        ):
            message = f"{name} does not belong into the wheel"
            yield note(message, "see the install rules", file=name, standing="refused")


def note(
    message: str, remedy: str, file: str | None = None, standing: Standing = "noted"
) -> Finding:
    return Finding(check="WHL002", standing=standing, message=message, remedy=remedy, file=file)
