"""The best build of a catalog for a host, and why it is none of the others. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from hostwheel.facts.host import Host
from hostwheel.facts.versions import numeric
from hostwheel.publish.catalog import Catalog, Entry
from hostwheel.publish.front_builds import label, never, parsed, speed, upstream
from hostwheel.publish.label import ANY, tagged_glibc
from hostwheel.user.findings import glibc, of_needs

# Larger is faster: GPU code or none, its architecture, CUDA's release, compiled-in CPU features;
# then newer: version, and time of upload.
Rank = tuple[bool, tuple[int, int], tuple[int, ...], int, Version, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Passed:
    """A wheel that was not taken, and why, in one line."""

    entry: Entry
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Picked:
    """`warning` says what the host has that no build uses; empty where there is nothing."""

    best: Entry | None
    others: tuple[Passed, ...]
    warning: str


def pick(catalog: Catalog, host: Host, python: str | None) -> Picked:
    """Of the wheels. `python` is the version ("3.11.7") to install for, None where not known."""
    wheels = [entry for entry in catalog.entries if entry.kind == "wheel"]
    reasons = {entry.filename: "; ".join(against(entry, host, python)) for entry in wheels}
    fitting = sorted((each for each in wheels if not reasons[each.filename]), key=rank)
    best = fitting[-1] if fitting else None
    others = tuple(
        Passed(entry=entry, reason=reasons[entry.filename] or behind(entry, best))
        for entry in sorted(wheels, key=lambda each: (each.recipe, each.filename))
        if entry is not best
    )
    return Picked(best=best, others=others, warning=warning(best, host))


def against(entry: Entry, host: Host, python: str | None) -> Iterator[str]:
    """Everything that keeps this build from this host."""
    yield from never(entry)
    yield from against_tag(entry, host)
    yield from against_python(entry, python)
    for finding in of_needs(host, entry.needs):
        if finding.standing != "well":
            yield finding.message


def against_tag(entry: Entry, host: Host) -> Iterator[str]:
    """pip looks at the tag alone, which may ask for more than the files do."""
    tagged = tagged_glibc(entry.platform_tag)
    if tagged and numeric(tagged) > numeric(entry.needs.glibc):
        finding = glibc(host, tagged)
        if finding.standing == "stops" and glibc(host, entry.needs.glibc).standing == "well":
            yield f"its tag asks for glibc {tagged}, here is {host.glibc}"


def against_python(entry: Entry, python: str | None) -> Iterator[str]:
    try:
        asked = SpecifierSet(entry.requires_python)
    except InvalidSpecifier:
        yield f"asks for Python {entry.requires_python!r}, which is no version"
        return
    if python is not None and not asked.contains(python, prereleases=True):
        yield f"needs Python {entry.requires_python}, here is {python}"


def rank(entry: Entry) -> Rank:
    return (*speed(entry.needs), parsed(upstream(entry)), entry.uploaded)


def behind(entry: Entry, best: Entry | None) -> str:
    """Why a build that fits is not the one: the first part of the rank that differs."""
    if best is None:
        return ""
    mine, its = rank(entry), rank(best)
    if mine[0] != its[0]:
        return "fits, but does not use the GPU"
    if mine[1] != its[1]:
        return f"fits, but sm_{best.needs.architecture} is nearer to the GPU"
    if mine[2] != its[2]:
        return f"fits, but is for CUDA {entry.needs.cuda}, and {best.needs.cuda} runs here"
    if ANY in label(entry).split("."):
        return "fits, but is for any CPU"
    if mine[3] != its[3]:
        unused = (each for each in best.needs.features if each not in entry.needs.features)
        return f"fits, but makes no use of {' '.join(unused)}"
    if mine[4] != its[4]:
        return f"fits, but is older than {its[4]}"
    return f"fits, as {best.recipe} does, which was published later"


def warning(best: Entry | None, host: Host) -> str:
    if best and host.gpu and best.needs.architecture is None:
        return f"no build here uses the {host.gpu.name}: this one runs on the CPU"
    return ""
