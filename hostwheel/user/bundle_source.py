"""Which build is bundled: what lies in out/RECIPE, or an entry of a bucket's catalog."""

import json
import re
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote, urlsplit
from urllib.request import url2pathname

from packaging.version import Version

from hostwheel.artifact.contents import sha256
from hostwheel.errors import BadInput, MachineLacks, Refused
from hostwheel.facts.host import Host
from hostwheel.publish.catalog import Catalog, Entry, Needs
from hostwheel.user.findings import of_needs
from hostwheel.user.pick import pick
from hostwheel.user.pick_catalog import CATALOG, bucket
from hostwheel.user.pick_catalog import fetch as fetch_catalog

WHEEL = re.compile(r"llama_cpp_python-[A-Za-z0-9_.+-]+\.whl")
TIMEOUT_S = 60.0
EVIDENCE = ("audit.json", "smoke.json")


@dataclass(frozen=True, kw_only=True, slots=True)
class Build:
    """The wheel to bundle. `unproved` are the kinds of evidence that lack for exactly its bytes."""

    recipe: str
    title: str
    version: str
    filename: str
    sha256: str
    needs: Needs
    where: str
    unproved: tuple[str, ...] = ()


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
        evidence = json.loads((out / "build.json").read_text(encoding="utf-8"))
        plan = evidence["plan"]
        known = {str(each["name"]): str(each["sha256"]) for each in evidence["artifacts"]}
        digest = known[plan["wheel"]]
        return Build(
            recipe=plan["recipe"],
            title=plan["host"]["title"],
            version=plan["version"],
            filename=plan["wheel"],
            sha256=digest,
            needs=needs_of(plan),
            where=str(out / "dist" / plan["wheel"]),
            unproved=tuple(name for name in EVIDENCE if not proves(out / name, digest)),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f"no build in {out}: {type(error).__name__}: {error}; `hostwheel build` makes one"
        ) from None


def needs_of(plan: Mapping[str, Any]) -> Needs:
    cuda, host = plan["cuda"] or {}, plan["host"]
    return Needs(
        features=tuple(plan["features"]),
        cuda=cuda.get("release"),
        architecture=cuda.get("architecture"),
        driver=cuda.get("driver"),
        glibc=host["glibc"],
        glibcxx=host["glibcxx"],
    )


def proves(evidence: Path, digest: str) -> bool:
    """Whether this evidence speaks of exactly these bytes. Refused where it says that they fail."""
    if not evidence.is_file():
        return False
    text = evidence.read_text(encoding="utf-8")
    if digest not in text:
        return False
    said = json.loads(text)
    reports = [each for each in said.get("reports", ()) if each["sha256"] == digest]
    if said.get("passed") is False or any(each["verdict"] != "fits" for each in reports):
        raise Refused(f"{evidence} says that the build failed; look there, and build it again")
    return True


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
        sha256=entry.sha256,
        needs=entry.needs,
        where=f"{address}/{quote(entry.key)}",
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


def fetch(build: Build, folder: Path) -> Path:
    """The wheel, copied into `folder`; BadInput when its bytes are others than recorded."""
    if not WHEEL.fullmatch(build.filename):
        raise BadInput(
            f"{build.where}: {build.filename!r} is no name of a wheel of llama_cpp_python"
        )
    path = folder / build.filename
    with opened(build.where) as file, path.open("xb") as target:
        try:
            shutil.copyfileobj(file, target, 1 << 20)
        except (HTTPException, ConnectionError, TimeoutError) as error:
            raise unreachable(build.where, repr(error)) from None
    if (found := sha256(path)) != build.sha256:
        raise BadInput(
            f"{build.where} is not what was recorded: fetch or build it again\n"
            f"    expected sha256 {build.sha256}\n    found    sha256 {found}"
        )
    return path


def opened(where: str) -> "closing[BinaryIO]":
    """A file by path, file:// or http(s)://; BadInput where there is none."""
    if urlsplit(where).scheme in ("http", "https"):
        return closing(over_http(where))
    file = where.startswith("file://")
    path = Path(url2pathname(urlsplit(where).path)) if file else Path(where)
    try:
        return closing(path.open("rb"))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None


def over_http(url: str) -> BinaryIO:
    try:
        response: BinaryIO = urllib.request.urlopen(url, timeout=TIMEOUT_S)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code < 500:
            raise BadInput(f"{url}: the server says {error.code} {error.reason}") from None
        raise unreachable(url, f"the server says {error.code} {error.reason}") from None
    except (OSError, HTTPException) as error:
        raise unreachable(url, str(getattr(error, "reason", error))) from None
    return response


def unreachable(url: str, why: str) -> MachineLacks:
    hint = "behind a proxy or a private CA set HTTPS_PROXY, SSL_CERT_FILE"
    return MachineLacks(f"could not download {url}: {why}; {hint}")
