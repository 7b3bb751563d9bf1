"""A bucket: its catalog, SHA256SUMS and signature, and every file with its evidence."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hostwheel.errors import BadInput, Refused
from hostwheel.publish.catalog import Catalog, Entry, object_key, read_catalog
from hostwheel.publish.entries import described, needs_of
from hostwheel.publish.generations import HINT
from hostwheel.publish.index import render
from hostwheel.trust.ssh import SUMS_NAMESPACE, Seal, Signers
from hostwheel.trust.sums import SIGNATURE, SUMS, read_sums
from hostwheel.user.verify_artifact import Given, artifact_findings
from hostwheel.user.verify_finding import About, Finding, Outcome, Read
from hostwheel.user.verify_signed import signature_findings

UNSIGNED: tuple[Outcome, str] = (
    "not checked",
    "not signed, so who published it is unknown (`hostwheel publish --key` signs)",
)
STRIPPED: tuple[Outcome, str] = (
    "refused",
    "the bucket is signed, and this file has no statement: publish it with --key",
)
MEANWHILE = "; if someone is publishing just now, try again in a minute"
OUTSIDE = "yanks, times of upload and the order of the list: they are not signed"


def bucket_findings(where: str, read: Read, signers: Signers | None) -> Iterator[Finding]:
    """`read` gives objects by key. BadInput where there is no catalog."""
    text = read(HINT)
    if text is None:
        raise BadInput(
            f"{where}: no {HINT} there; is it the address of a bucket, or of its folder?"
        )
    catalog = read_catalog(text, f"{where}/{HINT}")
    signature = read(SIGNATURE)
    yield from sums_findings(read(SUMS), signature, catalog, signers)
    yield About(name=HINT).not_checked("catalog", OUTSIDE)
    yield from About(name="pages").held(
        "index", "are those that follow from the catalog", lambda: check_pages(catalog, read)
    )
    for entry in catalog.entries:
        yield from entry_findings(entry, read, STRIPPED if signature else UNSIGNED, signers)


def sums_findings(
    text: bytes | None, signature: bytes | None, catalog: Catalog, signers: Signers | None
) -> Iterator[Finding]:
    about = About(name=SUMS)
    if text is None:
        yield about.refused("sums", "is not there; `hostwheel fsck --repair` writes it")
        return
    yield from about.held("sums", "has the catalog's files", lambda: check_sums(text, catalog))
    if signature:
        seal = Seal(data=text, signature=signature, namespace=SUMS_NAMESPACE)
        for each in signature_findings(about, seal, signers):
            moving = each.check == "signature" and each.outcome == "refused"
            yield about.refused("signature", each.message + MEANWHILE) if moving else each
    elif signers:
        yield about.refused(
            "signature", f"{SIGNATURE} is not there, so nobody vouches for the list"
        )
    else:
        yield about.not_checked("signature", UNSIGNED[1])


def check_sums(text: bytes, catalog: Catalog) -> None:
    """Refused with the first difference."""
    found = read_sums(text)
    listed = {each.filename: each.sha256 for each in catalog.entries}
    for name in sorted({*found, *listed}):
        if found.get(name) != listed.get(name):
            said, published = found.get(name, "nothing"), listed.get(name, "nothing")
            raise Refused(f"says {said} of {name}, the catalog says {published}{MEANWHILE}")


def check_pages(catalog: Catalog, read: Read) -> None:
    """Refused with the first page that pip, uv or a person would be led astray by.

    Keys with a slash at their end are not asked for: not every server has them, and each page
    lies under another key as well.
    """
    for page in render(catalog):
        if not page.key.endswith("/") and read(page.key) != page.body:
            raise Refused(f"{page.key} is not what the catalog gives{MEANWHILE}")


def entry_findings(
    entry: Entry, read: Read, unsigned: tuple[Outcome, str], signers: Signers | None
) -> Iterator[Finding]:
    about = About(name=entry.filename)
    body = read(entry.key)
    actual = hashlib.sha256(body).hexdigest() if body is not None else "nothing"
    if body is None or actual != entry.sha256:
        yield about.refused("catalog", f"{entry.key} is {actual}, not sha256 {entry.sha256}")
        return
    yield about.checked("catalog", "has the sha256 of the catalog")
    yield from about.held(
        "catalog", "needs what its evidence says", lambda: check_needs(entry, read)
    )

    def evidence(name: str) -> bytes | None:
        listed = entry.evidence.get(name)
        return read(object_key(listed, name)) if listed else None

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


def check_needs(entry: Entry, read: Read) -> None:
    """What the catalog says of the build and its needs, made again from the evidence."""
    try:
        build, audit = (parsed(entry, name, read) for name in ("build.json", "audit.json"))
        plan = build["plan"]
        built = plan["archive"] if entry.kind == "archive" else plan["wheel"]
        report = next(each for each in audit["reports"] if each["artifact"] == built)
        same = entry.kind == "variant" or report["sha256"] == entry.sha256
        planned = (plan["recipe"], plan["host"]["title"], needs_of(plan, report))
        agreed = (entry.recipe, entry.title, entry.needs) == planned
    except (KeyError, TypeError, AttributeError, ValueError, StopIteration) as error:
        raise Refused(f"evidence of an unknown form: {type(error).__name__}: {error}") from None
    if not (same and agreed):
        what = "needs, recipe or host" if same else "bytes"
        raise Refused(f"build.json and audit.json are of other {what} than the catalog says")


def parsed(entry: Entry, name: str, read: Read) -> Any:
    text = read(object_key(entry.evidence[name], name))
    if text is None:
        raise Refused(f"{name} is not there")
    return json.loads(text)
