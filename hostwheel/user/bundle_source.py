"""Which build is bundled: what lies in out/RECIPE, or an entry of a bucket's catalog."""

import json
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
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
from hostwheel.publish.catalog import Catalog, Entry, Needs, read_catalog
from hostwheel.user.bundle_fit import misfits

CATALOG = "catalog.json"
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
        where = f"{source.rstrip('/')}/{CATALOG}"
        with opened(where) as file:
            build = chosen(read_catalog(file.read(), where), source.rstrip("/"), wish)
    if wish.host and (reasons := tuple(misfits(build.needs, wish.host))):
        raise Refused(
            f"{build.filename} does not run on {wish.host.name} ({wish.host.title}):"
            + "".join(f"\n    {reason}" for reason in reasons)
        )
    return build


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


def chosen(catalog: Catalog, source: str, wish: Wish) -> Build:
    """The newest wheel of the recipe that was named, or of the only one that fits the host."""
    wheels = [each for each in catalog.entries if each.kind == "wheel"]
    usable = [each for each in wheels if each.yanked is None]
    if wish.recipe:
        usable = [each for each in usable if each.recipe == wish.recipe]
    elif host := wish.host:
        usable = [each for each in usable if not any(misfits(each.needs, host))]
    recipes = sorted({each.recipe for each in usable})
    if len(recipes) != 1:
        raise BadInput(f"{source}: {undecided(wish, recipes, wheels)}")
    entry = max(usable, key=lambda each: (Version(each.version), each.uploaded))
    return Build(
        recipe=entry.recipe,
        title=entry.title,
        version=entry.version,
        filename=entry.filename,
        sha256=entry.sha256,
        needs=entry.needs,
        where=f"{source}/{quote(entry.key) if is_url(source) else entry.key}",
    )


def undecided(wish: Wish, recipes: Iterable[str], wheels: Iterable[Entry]) -> str:
    """Why none of the catalog's wheels is the one that is meant."""
    if several := ", ".join(recipes):
        which = f"several builds fit {wish.host.name}" if wish.host else "it has several builds"
        return f"{which}: {several}; name one with --recipe (`hostwheel pick` says which is best)"
    yanked = [each for each in wheels if each.recipe == wish.recipe]
    if yanked:
        return f"every build of {wish.recipe!r} is yanked: {yanked[-1].yanked}"
    known = ", ".join(sorted({each.recipe for each in wheels})) or "none at all"
    if wish.recipe:
        return f"no build of recipe {wish.recipe!r}; it has {known}"
    return f"no build that fits; it has {known} (`hostwheel pick` says why not)"


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
        except HTTPException as error:
            raise unreachable(build.where, repr(error)) from None
    if (found := sha256(path)) != build.sha256:
        raise BadInput(
            f"{build.where} is not what was recorded: fetch or build it again\n"
            f"    expected sha256 {build.sha256}\n    found    sha256 {found}"
        )
    return path


def is_url(where: str) -> bool:
    return "://" in where


def opened(where: str) -> "closing[BinaryIO]":
    """A file by path, file:// or http(s)://; BadInput where there is none."""
    scheme = urlsplit(where).scheme if is_url(where) else ""
    if scheme in ("http", "https"):
        return closing(over_http(where))
    if scheme not in ("", "file"):
        raise BadInput(f"{where}: {scheme}:// is not read here: give its http(s):// address")
    path = Path(url2pathname(urlsplit(where).path)) if scheme else Path(where)
    try:
        return closing(path.open("rb"))
    except OSError as error:
        hint = "give a bucket's URL, or a folder with a build.json (out/RECIPE)"
        raise BadInput(f"{path}: {error.strerror}; {hint}") from None


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
