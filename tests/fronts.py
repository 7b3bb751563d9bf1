"""Catalogs for the tests of the page for people."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from hostwheel.publish.catalog import Catalog, Entry
from tests.users import RECIPES, entry

NASTY = "<script>document.title='ran'</script>\"'&\u202e"
PROOF = ("audit.html", "audit.json", "build.json", "smoke.json")


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


plain = cache(entry)  # planning it takes most of the time


def wheel(of: str, version: str = "0.3.36", **other: Any) -> Entry:
    """A recipe's wheel with all its evidence."""
    made = plain(of)
    filename = other.get("filename") or made.filename.replace("0.3.36", version)
    evidence = {name: sha256(filename + name) for name in PROOF}
    changes = {"filename": filename, "sha256": sha256(filename), "evidence": evidence}
    changes["version"] = made.version.replace("0.3.36", version)
    return replace(made, **{**changes, **other})


def archive(of: Entry) -> Entry:
    name = f"llama-server-{of.version.replace('+', '-')}-linux-x86_64.tar.gz"
    evidence = {**of.evidence, "audit.html": sha256(name)}
    return replace(
        of, kind="archive", filename=name, sha256=sha256(name + "!"), metadata="", evidence=evidence
    )


def both(recipe: str, version: str = "0.3.36") -> Iterator[Entry]:
    made = wheel(recipe, version)
    yield made
    yield archive(made)


def nasty(**other: Any) -> Entry:
    """One whose every free text wants to be a script."""
    made = wheel("a10g")
    evidence = {**made.evidence, f"{NASTY}.json": "ab" * 32}
    return replace(
        made,
        title=NASTY,
        requires_python=NASTY,
        uploaded=NASTY,
        filename=f"llama_cpp_python-0.3.36-{NASTY}.whl",
        version=f"0.3.36+{NASTY}",
        platform_tag=NASTY,
        evidence=evidence,
        needs=replace(made.needs, features=(NASTY,)),
        **other,
    )


def full() -> Catalog:
    """Every recipe at two versions; one wheel is withdrawn."""
    made = [
        each for version in ("0.3.36", "0.3.35") for name in RECIPES for each in both(name, version)
    ]
    gone = wheel("a10g-cu12", yanked="llama-server loses requests; take 0.3.37")
    return Catalog().next((*made, gone))


def many(versions: int) -> Catalog:
    return Catalog().next(
        wheel(name, f"0.3.{number}") for number in range(versions) for name in RECIPES
    )
