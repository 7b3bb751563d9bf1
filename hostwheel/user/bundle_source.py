"""Which build is bundled: what lies in out/RECIPE, or an entry of a bucket's catalog."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from packaging.version import Version

from hostwheel.artifact.contents import sha256
from hostwheel.errors import BadInput, Refused
from hostwheel.facts.host import Host
from hostwheel.publish.catalog import Catalog, Entry, Needs, object_key
from hostwheel.publish.catalog_check import WHEEL
from hostwheel.publish.entries import planned_needs
from hostwheel.publish.evidence import page_name, problems_of_smoke
from hostwheel.user.bundle_fetch import Source
from hostwheel.user.findings import of_needs
from hostwheel.user.pick import pick
from hostwheel.user.pick_catalog import CATALOG, bucket
from hostwheel.user.pick_catalog import fetch as fetch_catalog

PROOF = ("audit.json", "smoke.json")


@dataclass(frozen=True, kw_only=True, slots=True)
class Build:
    """The wheel to bundle, and by file name the evidence that speaks of exactly its bytes."""

    recipe: str
    title: str
    version: str
    filename: str
    needs: Needs
    wheel: Source
    evidence: Mapping[str, Source]

    @property
    def unproved(self) -> tuple[str, ...]:
        return tuple(name for name in PROOF if name not in self.evidence)


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What the user said of the build: a recipe's name, the host that it is for, or neither."""

    recipe: str | None = None
    host: Host | None = None


def find_build(source: str, wish: Wish) -> Build:
    """BadInput where there is none or no single one, Refused where it does not fit the host."""
    if (Path(source) / "build.json").is_file():
        build = built(Path(source))
        if wish.recipe not in (None, build.recipe):
            raise BadInput(f"{source} holds recipe {build.recipe!r}, not {wish.recipe!r}")
    else:
        if "://" not in source and not (Path(source) / CATALOG).is_file():
            raise BadInput(f"{source} has no build.json, as out/RECIPE has, and no {CATALOG}")
        address = bucket(source)
        build = chosen(fetch_catalog(address), address, wish)
    if not WHEEL.fullmatch(build.filename):
        raise BadInput(f"{source}: {build.filename!r} is no name of a wheel of llama_cpp_python")
    if wish.host and (reasons := tuple(misfits(build.needs, wish.host))):
        raise Refused(
            f"{build.filename} does not run on {wish.host.name} ({wish.host.title}):"
            + "".join(f"\n    {reason}" for reason in reasons)
        )
    return build


def misfits(needs: Needs, host: Host) -> Iterator[str]:
    """In the words of doctor and pick; "here" is that host. What only slows it down is told."""
    for each in of_needs(host, needs):
        if each.standing == "stops":
            yield each.message
        elif each.standing != "well":
            print(f"on {host.name}: {each.message}", file=sys.stderr)


def built(out: Path) -> Build:
    """What `hostwheel build` left in a recipe's folder."""
    try:
        said = read(out / "build.json")
        plan = said["plan"]
        known = {str(each["name"]): str(each["sha256"]) for each in said["artifacts"]}
        digest = known[plan["wheel"]]
        return Build(
            recipe=plan["recipe"],
            title=plan["host"]["title"],
            version=plan["version"],
            filename=plan["wheel"],
            needs=planned_needs(plan),
            wheel=Source(where=str(out / "dist" / plan["wheel"]), sha256=digest),
            evidence={
                name: Source(where=str(path), sha256=sha256(path))
                for name, path in evidence(out, digest)
            },
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f"{out}: no build, or evidence of another form ({type(error).__name__}: {error});"
            " `hostwheel build` and `hostwheel audit` make them"
        ) from None


def read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def evidence(out: Path, digest: str) -> Iterator[tuple[str, Path]]:
    """What speaks of exactly these bytes. Refused where it says that they did not pass."""
    yield "build.json", out / "build.json"
    audit, smoke = (out / name for name in PROOF)
    reports = read(audit)["reports"] if audit.is_file() else []
    for number, report in enumerate(reports):
        if report["sha256"] == digest:
            fits = report["verdict"] == "fits"
            check(audit, () if fits else (f"the verdict is {report['verdict']}",))
            yield audit.name, audit
            if (page := out / page_name(number)).is_file():
                yield "audit.html", page
    said = read(smoke) if smoke.is_file() else {"artifacts": {}}
    if digest in said["artifacts"].values():
        check(smoke, tuple(problems_of_smoke(out, read(out / "build.json"), said)))
        yield smoke.name, smoke


def check(evidence: Path, problems: Sequence[str]) -> None:
    if problems:
        raise Refused(f"{evidence} says that the build did not pass: {problems[0]}")


def chosen(catalog: Catalog, address: str, wish: Wish) -> Build:
    """The newest wheel of the recipe that was named, else what `hostwheel pick` takes."""
    recipes = sorted({each.recipe for each in catalog.entries if each.kind == "wheel"})
    if wish.recipe or len(recipes) == 1:
        entry = newest(catalog, address, wish.recipe or recipes[0])
    elif wish.host:
        entry = picked(catalog, address, wish.host)
    else:
        known = ", ".join(recipes) or "none at all"
        raise BadInput(f"{address} has {known}: name one with --recipe, or the machine with --host")
    return Build(
        recipe=entry.recipe,
        title=entry.title,
        version=entry.version,
        filename=entry.filename,
        needs=entry.needs,
        wheel=Source(where=f"{address}/{quote(entry.key)}", sha256=entry.sha256),
        evidence={
            name: Source(where=f"{address}/{quote(object_key(digest, name))}", sha256=digest)
            for name, digest in entry.evidence.items()
        },
    )


def newest(catalog: Catalog, address: str, recipe: str) -> Entry:
    wheels = [each for each in catalog.entries if each.kind == "wheel"]
    named = [each for each in wheels if each.recipe == recipe]
    usable = [each for each in named if each.yanked is None]
    if usable:
        return max(usable, key=lambda each: (Version(each.version), each.uploaded))
    if named:
        raise BadInput(f"{address}: every build of {recipe!r} is yanked: {named[-1].yanked}")
    known = ", ".join(sorted({each.recipe for each in wheels})) or "none at all"
    raise BadInput(f"{address}: no build of recipe {recipe!r}; it has {known}")


def picked(catalog: Catalog, address: str, host: Host) -> Entry:
    found = pick(catalog, host, None)
    if found.best is None:
        reasons = (f"\n    {each.entry.recipe}: {each.reason}" for each in found.others)
        raise Refused(f"{address}: no build fits {host.name}:" + "".join(reasons))
    return found.best
