"""A statement of each file that is published, and the signature of the bucket's SHA256SUMS.

Whoever signs vouches for every line of SHA256SUMS, and what others published comes from the bucket.
So a line is signed only if it is of a file that is published now, or was in the SHA256SUMS that
this key signed before, or has a statement that this key signed.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hostwheel.artifact.contents import open_artifact
from hostwheel.errors import Refused
from hostwheel.publish.bucket import Bucket
from hostwheel.publish.catalog import Catalog, Entry, object_key
from hostwheel.publish.entries import Item
from hostwheel.publish.generations import newest
from hostwheel.publish.objects import Upload
from hostwheel.publish.page import INDEX_CACHE, Page
from hostwheel.run import say
from hostwheel.trust.dsse import read_envelope, seal
from hostwheel.trust.ssh import SUMS_NAMESPACE, Key, Seal, check, read_key, sign
from hostwheel.trust.statement import NAME, read_statement, sbom_hashes, statement
from hostwheel.trust.sums import SIGNATURE, SUMS, read_sums

Hashes = Mapping[str, str]
"""File name → sha256."""


def with_statements(
    items: Sequence[Item], build: Mapping[str, object], key: Path
) -> Iterator[Item]:
    """Each item with a statement among its evidence. A wheel and its copy have one together."""
    together: dict[tuple[tuple[str, str], ...], list[Item]] = {}
    for item in items:
        together.setdefault(tuple(sorted(item.entry.evidence.items())), []).append(item)
    for some in together.values():
        entry = some[0].entry
        byproducts = {**entry.evidence, **sbom_of(some[0].file)}
        text = seal(statement(hashes(each.entry for each in some), build, byproducts), key)
        sha256 = hashlib.sha256(text).hexdigest()
        upload = Upload(key=object_key(sha256, NAME), source=text, sha256=sha256)
        for item in some:
            evidence = dict(sorted({**item.entry.evidence, NAME: sha256}.items()))
            stated = replace(item.entry, evidence=evidence)
            yield replace(item, entry=stated, uploads=(*item.uploads, upload))


def sbom_of(artifact: Path) -> Hashes:
    with TemporaryDirectory(prefix="hostwheel-sbom-") as folder:
        return sbom_hashes(open_artifact(artifact, Path(folder)))


def hashes(entries: Iterable[Entry]) -> dict[str, str]:
    return {each.filename: each.sha256 for each in entries}


def vouched(bucket: Bucket, catalog: Catalog, key: Path | None) -> Hashes:
    """What this key vouches for already. Refused where the bucket is signed and `key` is not that.

    All of it where nobody has signed yet: the first who signs takes over what is there.
    """
    signature = bucket.read(SIGNATURE)
    if signature is None:
        if key and catalog.entries:
            say(f"{bucket.url}: signed for the first time, with {len(catalog.entries)} older files")
        return hashes(catalog.entries)
    where = f"{bucket.url}/{SIGNATURE}"
    if key is None:
        raise Refused(
            f"{where}: this bucket is signed, so publish with --key; or delete {SIGNATURE}, and"
            " nobody can tell any more who published what"
        )
    text = bucket.read(SUMS) or b""
    try:
        found = check(Seal(data=text, signature=signature, namespace=SUMS_NAMESPACE))
    except Refused:
        return {}  # a publisher was stopped between the two: statements tell
    if found != (ours := read_key(key)):
        raise Refused(
            f"{where}: signed with {found}, not with {ours}: publish with that key; or look at"
            f" everything with `hostwheel verify`, delete {SIGNATURE}, and publish with yours"
        )
    return read_sums(text)


def sign_sums(bucket: Bucket, key: Path, known: Hashes) -> None:
    """Sign SHA256SUMS as it is stored; anew where another publisher changed it meanwhile.

    `known` are the files that are vouched for. Refused for another one without our statement.
    """
    ours = read_key(key)
    while True:
        text = bucket.read(SUMS) or b""
        check_known(bucket, read_sums(text), known, ours)
        signature = sign(text, key, SUMS_NAMESPACE)
        if bucket.read(SIGNATURE) != signature:
            bucket.put(signature_page(signature))
        if bucket.read(SUMS) == text:
            return


def signature_page(signature: bytes) -> Page:
    return Page(key=SIGNATURE, body=signature, content_type="text/plain", cache_control=INDEX_CACHE)


def check_known(bucket: Bucket, lines: Hashes, known: Hashes, key: Key) -> None:
    strange = {name: sha256 for name, sha256 in lines.items() if known.get(name) != sha256}
    if not strange:
        return
    entries = {each.filename: each for each in newest(bucket).entries}
    for name, sha256 in strange.items():
        if name not in entries or not is_stated(bucket, entries[name], sha256, key):
            raise Refused(
                f"{bucket.url}: {name} is in {SUMS}, and {key} has not signed it before: "
                f"{SIGNATURE} was not written; publish that file with the key too, or find out how"
                " it came there (`hostwheel verify`, `hostwheel yank`)"
            )


def is_stated(bucket: Bucket, entry: Entry, sha256: str, key: Key) -> bool:
    """Whether a statement that `key` signed is of this file."""
    text = bucket.read(object_key(entry.evidence.get(NAME, ""), NAME))
    if text is None:
        return False
    try:
        envelope = read_envelope(text)
        subjects = read_statement(envelope.payload).subjects
        return check(envelope.seal) == key and subjects.get(entry.filename) == sha256
    except Refused:
        return False
