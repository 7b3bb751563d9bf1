"""One file of a bucket: what the catalog says of it, against its bytes and its evidence."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hostwheel.errors import Refused
from hostwheel.publish.catalog import Entry, Needs, object_key
from hostwheel.publish.entries import described, needs_of
from hostwheel.publish.properties import properties_of
from hostwheel.publish.variants import NULL, said_variant
from hostwheel.publish.variants_json import described as variants_of
from hostwheel.trust.ssh import Signers
from hostwheel.user.verify_artifact import Given, artifact_findings
from hostwheel.user.verify_finding import About, Finding, Outcome, Read

KEPT = 16  # a wheel, its copy and its archive have nearly all evidence together

UNKNOWN_FORM = (
    *(KeyError, TypeError, AttributeError, ValueError, StopIteration),
    RecursionError,  # JSON that is nested too deep
)


def entries_findings(
    entries: Iterable[Entry], read: Read, unsigned: tuple[Outcome, str], signers: Signers | None
) -> Iterator[Finding]:
    """Each object is read once. `unsigned` is what it means where a file has no statement."""
    evidence = lru_cache(maxsize=KEPT)(read)
    for entry in sorted(entries, key=lambda each: each.evidence.get("build.json", "")):
        yield from entry_findings(entry, read, evidence, unsigned, signers)


def entry_findings(
    entry: Entry, read: Read, kept: Read, unsigned: tuple[Outcome, str], signers: Signers | None
) -> Iterator[Finding]:
    """`kept` reads what other entries may have too."""
    about = About(name=entry.filename)
    body = read(entry.key)
    actual = hashlib.sha256(body).hexdigest() if body is not None else "nothing"
    if body is None or actual != entry.sha256:
        yield about.refused("catalog", f"{entry.key} is {actual}, not sha256 {entry.sha256}")
        return
    yield about.checked("catalog", "has the sha256 of the catalog")
    if len(body) != entry.size:
        yield about.refused("catalog", f"has {len(body)} bytes, the catalog says {entry.size}")
    yield from about.held(
        "catalog", "needs what its evidence says", lambda: check_needs(entry, kept)
    )

    def evidence(name: str) -> bytes | None:
        listed = entry.evidence.get(name)
        return kept(object_key(listed, name)) if listed else None

    with TemporaryDirectory(prefix="hostwheel-verify-") as folder:
        file = Path(folder) / entry.filename
        file.write_bytes(body)
        if entry.kind != "archive":
            yield from about.held(
                "catalog", "says what its METADATA says", lambda: check_metadata(entry, file, read)
            )
        given = Given(
            name=entry.filename,
            file=file,
            read=evidence,
            listed=entry.evidence,
            unsigned=unsigned,
        )
        yield from artifact_findings(given, signers)


def check_metadata(entry: Entry, wheel: Path, read: Read) -> None:
    if described(entry, wheel) != entry:
        raise Refused("its METADATA has other requirements than the catalog")
    if f"-{entry.platform_tag}" not in entry.filename:
        raise Refused(f"the catalog says {entry.platform_tag}, which is not in its name")
    key = f"{entry.key}.metadata"
    text = read(key)
    if text is None or hashlib.sha256(text).hexdigest() != entry.metadata:
        raise Refused(f"{key} is not its METADATA")
    if entry.kind == "variant":
        check_variant(entry, wheel)


def check_variant(entry: Entry, copy: Path) -> None:
    """Installers choose by the catalog's variants.json; variant.json says it inside the copy."""
    if said_variant(copy) != variants_of({entry.variant: entry.properties}):
        raise Refused(
            "the variant.json in it has another label or other properties than the catalog"
        )


def check_needs(entry: Entry, read: Read) -> None:
    """What the catalog says of the build and its needs, made again from the evidence."""
    try:
        build, audit = (parsed(entry, name, read) for name in ("build.json", "audit.json"))
        plan = build["plan"]
        built = plan["archive"] if entry.kind == "archive" else plan["wheel"]
        report = next(each for each in audit["reports"] if each["artifact"] == built)
        same = entry.kind == "variant" or report["sha256"] == entry.sha256
        needs = needs_of(plan, report)
        planned = (plan["recipe"], plan["host"]["title"], needs)
        agreed = (entry.recipe, entry.title, entry.needs) == planned
        own = (built, plan["version"], plan["platform_tag"])
        named = entry.kind == "variant" or own == (
            entry.filename,
            entry.version,
            entry.platform_tag,
        )
        chosen = (entry.variant, entry.properties) == variant_of(entry, plan["label"], needs)
    except UNKNOWN_FORM as error:
        raise Refused(f"evidence of an unknown form: {type(error).__name__}: {error}") from None
    if not (same and agreed and named):
        what = ("name or version" if agreed else "needs, recipe or host") if same else "bytes"
        raise Refused(f"build.json and audit.json are of other {what} than the catalog says")
    if not chosen:
        raise Refused("the catalog's variant label or properties do not follow from what it needs")


def variant_of(entry: Entry, label: str, needs: Needs) -> tuple[str, tuple[str, ...]]:
    """Label and properties that a file of this kind has to have."""
    if entry.kind != "variant":
        return "", ()
    properties = properties_of(needs)
    return (label if properties else NULL), properties


def parsed(entry: Entry, name: str, read: Read) -> Any:
    text = read(object_key(entry.evidence[name], name))
    if text is None:
        raise Refused(f"{name} is not there")
    return json.loads(text)
