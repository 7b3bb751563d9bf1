"""The evidence of a build in its bundle, and `hostwheel verify` of that without network."""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hostwheel.__main__ import main
from hostwheel.trust.ssh import BUNDLE_NAMESPACE, read_key, sign
from hostwheel.trust.statement import NAME
from hostwheel.trust.sums import SIGNATURE, SUMS, read_sums, sums
from hostwheel.user.bundle_programs import programs
from tests.bundles import OURS, bucket, bundled, entry, gguf, left, names, read, unpacked
from tests.proved import proved
from tests.signed import Published, allowed, key, public, signed_bucket

pytestmark = pytest.mark.usefixtures("settings")
pytest_plugins = ["tests.bundle_fixtures"]

PROOF = ("audit.html", "audit.json", "build.json", "smoke.json")


@pytest.fixture
def signed(tmp_path: Path) -> Published:
    return signed_bucket(tmp_path)


def evidence(archive: Path) -> list[str]:
    return [name.partition("/")[2] for name in names(archive) if name.startswith("evidence/")]


def verify(place: Path, signers: Path) -> subprocess.CompletedProcess[str]:
    """In a namespace without network."""
    argv = ("unshare", "-rn", sys.executable, "-m", "hostwheel", "verify", str(place))
    return subprocess.run(
        (*argv, "--allowed-signers", str(signers)), capture_output=True, text=True
    )


def test_a_signed_build_verifies_offline(
    signed: Published, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = gguf(tmp_path / "my model.gguf")
    signing = ("--key", key())
    assert bundled(signed.folder, *signing, "--gguf", model, "-o", tmp_path / "s.zip") == 0
    assert f"signed with {read_key(public())}" in capsys.readouterr().out
    assert evidence(tmp_path / "s.zip") == [*PROOF, NAME]
    signers = allowed(tmp_path / "signers")
    for place in (tmp_path / "s.zip", unpacked(tmp_path / "s.zip", tmp_path / "bundle")):
        done = verify(place, signers)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "the key is that of release@example.org" in done.stdout
        assert "the statement is of exactly these bytes" in done.stdout
        for name in PROOF:
            assert f"{name} is what was published" in done.stdout
    stranger = allowed(tmp_path / "others", name="stranger")
    assert verify(tmp_path / "s.zip", stranger).returncode == 1


def altered(bundle: Path) -> None:
    (bundle / "evidence" / "smoke.json").write_text('{"passed": true}')


def altered_with_its_sum(bundle: Path) -> None:
    altered(bundle)
    relist(bundle)


def statement_gone(bundle: Path) -> None:
    (bundle / "evidence" / NAME).unlink()
    relist(bundle)
    (bundle / SIGNATURE).unlink()


def relist(bundle: Path) -> None:
    """SHA256SUMS in line with what is there, and signed."""
    listed = read_sums((bundle / SUMS).read_bytes())
    there = {name: bundle / name for name in listed if (bundle / name).is_file()}
    hashes = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in there.items()}
    (bundle / SUMS).write_bytes(sums(hashes))
    signature = sign((bundle / SUMS).read_bytes(), key(), BUNDLE_NAMESPACE)
    (bundle / SIGNATURE).write_bytes(signature)


@pytest.mark.parametrize(
    ("tamper", "told"),
    [
        (altered, "sums: evidence/smoke.json: sha256 "),
        (altered_with_its_sum, "smoke.json is "),
        (statement_gone, f"no {NAME}, so nothing shows that your signer built it"),
    ],
)
def test_tampered_evidence_is_refused(
    tamper: Callable[[Path], None], told: str, signed: Published, tmp_path: Path
) -> None:
    assert bundled(signed.folder, "--key", key(), "--into", tmp_path) == 0
    tamper(tmp_path / "hostwheel-bundle")
    done = verify(tmp_path / "hostwheel-bundle", allowed(tmp_path / "signers"))
    assert done.returncode == 1
    assert told in done.stdout.partition("refused:")[2]


@pytest.mark.parametrize("name", [NAME, "smoke.json"])
def test_a_bucket_whose_evidence_is_damaged(
    name: str, signed: Published, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    signed.evidence(name).write_text("{}")
    assert bundled(signed.folder, "-o", tmp_path / "s.zip") == 2
    assert f"/{name} is not what was recorded" in capsys.readouterr().err
    signed.evidence(name).unlink()
    assert bundled(signed.folder, "-o", tmp_path / "s.zip") == 2
    assert left(tmp_path) == ["bucket", "more"]


def test_a_catalog_that_names_evidence_elsewhere(
    standin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = entry(standin, evidence={"../../smoke.json": "0" * 64})
    place = bucket(tmp_path / "bucket", {standin: named})
    assert bundled(place, "-o", tmp_path / "s.zip") == 2
    assert "expected a plain name and its sha256" in capsys.readouterr().err


def test_a_bucket_without_evidence_is_told(standin: Path, tmp_path: Path) -> None:
    place = bucket(tmp_path / "bucket", {standin: entry(standin)})
    assert bundled(place, "-o", tmp_path / "s.zip") == 0
    assert evidence(tmp_path / "s.zip") == []
    assert "came without audit.json, smoke.json" in read(tmp_path / "s.zip", "README.txt")


def test_an_out_folder_gives_what_it_has(out: Path, tmp_path: Path) -> None:
    assert bundled(out, "-o", tmp_path / "s.zip") == 0
    assert evidence(tmp_path / "s.zip") == [*PROOF]
    assert read(tmp_path / "s.zip", "evidence/smoke.json") == (out / "smoke.json").read_text()
    (out / "smoke.json").unlink()
    assert bundled(out, "-o", tmp_path / "s.zip") == 0
    assert evidence(tmp_path / "s.zip") == ["audit.html", "audit.json", "build.json"]


def test_evidence_of_other_bytes_stays_out(out: Path, tmp_path: Path) -> None:
    """Of an earlier build, say."""
    digest = hashlib.sha256((out / "dist" / OURS).read_bytes()).hexdigest()
    for name in ("audit.json", "smoke.json"):
        text = (out / name).read_text()
        (out / name).write_text(text.replace(digest, "0" * 64))
    assert bundled(out, "-o", tmp_path / "s.zip") == 0
    assert evidence(tmp_path / "s.zip") == ["build.json"]
    assert json.loads(read(tmp_path / "s.zip", "bundle.json"))["unproved"] == [
        "audit.json",
        "smoke.json",
    ]


def test_the_page_is_the_wheels(signed: Published, tmp_path: Path) -> None:
    """Where the archive was audited first, audit.html is of that."""
    out = proved(tmp_path / "build")
    audit = json.loads((out / "audit.json").read_text())
    audit["reports"].reverse()
    (out / "audit.json").write_text(json.dumps(audit))
    shutil.move(out / "audit.html", out / "page")
    shutil.move(out / "audit-2.html", out / "audit.html")
    shutil.move(out / "page", out / "audit-2.html")
    assert bundled(out, "-o", tmp_path / "s.zip") == 0
    assert read(tmp_path / "s.zip", "evidence/audit.html") == (out / "audit-2.html").read_text()


def test_evidence_of_another_form_is_told(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (out / "audit.json").write_text("[]")
    assert bundled(out, "-o", tmp_path / "s.zip") == 2
    assert "evidence of another form" in capsys.readouterr().err


def test_a_signed_bundle_gives_way_to_the_next(signed: Published, tmp_path: Path) -> None:
    for _ in range(2):
        assert bundled(signed.folder, "--key", key(), "--into", tmp_path) == 0
    assert (tmp_path / "hostwheel-bundle" / SIGNATURE).is_file()


def test_a_key_that_cannot_sign_is_told_before_anything_is_fetched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unsafe = Path(shutil.copy(key(), tmp_path / "unsafe"))
    unsafe.chmod(0o644)
    assert bundled("http://127.0.0.1:1/", "--key", unsafe, "-o", tmp_path / "s.zip") == 2
    assert f"chmod 600 {unsafe}" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["mine.zip", "cuda.zip"])
def test_what_is_bundled_has_the_programs_of_hostwheel(
    name: str, made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(made / name)]) == 0
    assert f"{len(programs())} files: as this hostwheel writes them" in capsys.readouterr().out
