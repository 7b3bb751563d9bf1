"""A bucket: its catalog, SHA256SUMS and signature, and every file with its evidence."""

from collections.abc import Iterator

from hostwheel.errors import BadInput, Refused
from hostwheel.publish.catalog import Catalog, read_catalog
from hostwheel.publish.generations import HINT, generation_key
from hostwheel.trust.ssh import SUMS_NAMESPACE, Seal, Signers
from hostwheel.trust.sums import SIGNATURE, SUMS, read_sums
from hostwheel.user.verify_entry import entries_findings
from hostwheel.user.verify_finding import About, Finding, Outcome, Read
from hostwheel.user.verify_pages import MEANWHILE, page_findings
from hostwheel.user.verify_place import Place
from hostwheel.user.verify_signed import keys_findings, signature_findings
from hostwheel.user.verify_strays import stray_findings

UNSIGNED: tuple[Outcome, str] = (
    "not checked",
    "not signed, so who published it is unknown (its publisher can: `hostwheel publish --key`)",
)
STRIPPED: tuple[Outcome, str] = (
    "refused",
    "the bucket is signed, and this file has no statement: do not use it, and tell the publisher",
)
OLDER = (
    "earlier generations of the catalog: nothing is installed by them (`hostwheel fsck` reads them)"
)
OUTSIDE = "yanks, times of upload and the order of the list: they are not signed"


def bucket_findings(place: Place, signers: Signers | None) -> Iterator[Finding]:
    """BadInput where there is no catalog."""
    found = tuple(all_findings(place, signers))
    yield from found
    if signers is None:
        yield from keys_findings(found)


def all_findings(place: Place, signers: Signers | None) -> Iterator[Finding]:
    read = place.read
    text = read(HINT)
    if text is None:
        raise BadInput(
            f"{place.where}: no {HINT} there; is it the address of a bucket, or of its folder?"
        )
    catalog = read_catalog(text, f"{place.where}/{HINT}")
    signature = read(SIGNATURE)
    yield from sums_findings(read(SUMS), signature, catalog, signers)
    yield from generation_findings(text, catalog, read)
    yield from page_findings(catalog, place)
    yield from stray_findings(catalog, place)
    yield from entries_findings(catalog.entries, read, STRIPPED if signature else UNSIGNED, signers)


def generation_findings(text: bytes, catalog: Catalog, read: Read) -> Iterator[Finding]:
    """catalog.json is a copy of the generation from which the next publisher goes on."""
    about, key = About(name=HINT), generation_key(catalog.generation)
    if read(key) == text:
        yield about.checked("catalog", f"is {key}")
    else:
        yield about.refused("catalog", f"is not {key}, which publishers go on from{MEANWHILE}")
    if catalog.generation > 1:
        yield about.not_checked("catalog", OLDER)
    yield about.not_checked("catalog", OUTSIDE)


def sums_findings(
    text: bytes | None, signature: bytes | None, catalog: Catalog, signers: Signers | None
) -> Iterator[Finding]:
    about = About(name=SUMS)
    if text is None:
        yield about.refused(
            "sums", "is not there (its publisher can write it: `hostwheel fsck --repair`)"
        )
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
