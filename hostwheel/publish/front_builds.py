"""What the page for people tells: builds by upstream version, and of each the fastest first."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from packaging.version import Version

from hostwheel.audit.cuda import split
from hostwheel.facts.versions import numeric
from hostwheel.publish.catalog import Catalog, Entry, Needs
from hostwheel.publish.label import CPU, GPU, tagged_glibc

DRAFT = "draft"  # a part of the label


@dataclass(frozen=True, kw_only=True, slots=True)
class Build:
    """A wheel, with the archives of the same recipe and version; an archive that has no wheel."""

    entry: Entry
    archives: tuple[Entry, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    """The builds of an upstream version."""

    version: str
    builds: tuple[Build, ...]


def releases(catalog: Catalog) -> tuple[Release, ...]:
    """The newest first."""
    found: dict[str, list[Build]] = {}
    for build in builds(catalog.entries):
        found.setdefault(upstream(build.entry), []).append(build)
    return tuple(
        Release(version=version, builds=tuple(sorted(found[version], key=order)))
        for version in sorted(found, key=parsed, reverse=True)
    )


def builds(entries: Iterable[Entry]) -> Iterator[Build]:
    """Variants are the wheels once more, and not shown."""
    wheels: list[Entry] = []
    archives: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        if entry.kind == "wheel":
            wheels.append(entry)
        elif entry.kind == "archive":
            archives.setdefault((entry.recipe, entry.version), []).append(entry)
    for wheel in wheels:
        beside = archives.pop((wheel.recipe, wheel.version), ())
        yield Build(entry=wheel, archives=tuple(beside))
    for alone in archives.values():
        yield from (Build(entry=each) for each in alone)


def order(build: Build) -> tuple[object, ...]:
    """What is withdrawn goes last."""
    entry = build.entry
    gpu, architecture, cuda, features = speed(entry.needs)
    slowest_last = (not gpu, *(-each for each in (*architecture, *cuda)), -features)
    return entry.yanked is not None, slowest_last, entry.recipe, entry.filename


@lru_cache(maxsize=4096)
def speed(needs: Needs) -> tuple[bool, tuple[int, int], tuple[int, ...], int]:
    """Larger is faster, on a machine that has all of it; as `hostwheel pick` ranks."""
    return (
        needs.architecture is not None,
        split(needs.architecture) if needs.architecture else (0, 0),
        numeric(needs.cuda) if needs.cuda else (),
        len(needs.features),
    )


def upstream(entry: Entry) -> str:
    """The version without its label."""
    return entry.version.partition("+")[0]


def anchor(entry: Entry) -> str:
    """What the build's place in its page is called."""
    return f"{entry.recipe}-{entry.sha256[:8]}"


def label(entry: Entry) -> str:
    return entry.version.partition("+")[2]


parsed = lru_cache(maxsize=4096)(Version)


def cpu_label(entry: Entry) -> str:
    """The label's part that speaks of the CPU: avx512.vnni; all of one that is not ours."""
    whole = label(entry)
    match = GPU.fullmatch(whole) or CPU.fullmatch(whole)
    return match["cpu"] if match else whole


def lowest_glibc(entry: Entry) -> str:
    """What a machine must have: pip and uv take a wheel by its tag, an archive has none."""
    tagged = tagged_glibc(entry.platform_tag) if entry.kind == "wheel" else ""
    return max(tagged or entry.needs.glibc, entry.needs.glibc, key=numeric)


def never(entry: Entry) -> tuple[str, ...]:
    """Why no machine should take it, in the words of `hostwheel pick`."""
    found = []
    if entry.yanked is not None:
        found.append(f"withdrawn: {entry.yanked or 'no reason given'}")
    if DRAFT in label(entry).split("."):
        found.append("a draft, which is for tests")
    if not tagged_glibc(entry.platform_tag):
        found.append(f"is for {entry.platform_tag}, this host is Linux on x86-64 with glibc")
    return tuple(found)


def newest_alike(catalog: Catalog) -> tuple[tuple[Entry, int], ...]:
    """Of wheels that differ in version only, the newest, with its place in the order of age.

    No machine prefers another of them, so that these alone have to be chosen among.
    """
    wheels = [each for each in catalog.entries if each.kind == "wheel"]
    wheels.sort(key=lambda each: (parsed(upstream(each)), each.uploaded))
    alike = {
        (each.recipe, each.needs, each.platform_tag, never(each)): (each, place)
        for place, each in enumerate(wheels)
    }
    return tuple(alike.values())
