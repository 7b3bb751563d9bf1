"""A bundle, packed or not: its list and who signed it, its programs, and its wheel's statement."""

import hashlib
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from hostwheel import __version__
from hostwheel.__main__ import main
from hostwheel.trust.ssh import BUNDLE_NAMESPACE, SUMS_NAMESPACE, sign
from hostwheel.trust.statement import NAME
from hostwheel.trust.sums import SIGNATURE, SUMS, sums
from hostwheel.user.bundle_programs import programs
from tests.audits import pack
from tests.signed import allowed, key, public, signed_bucket

EVIDENCE = ("statement.json", "build.json", "audit.json", "smoke.json", "audit.html")
OTHER = "wheels/other-1.0-py3-none-any.whl"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """As `hostwheel bundle --key` lays it out, with the evidence of our wheel."""
    bucket, folder = signed_bucket(tmp_path), tmp_path / "bundle"
    for name in ("wheels", "evidence", "models"):
        (folder / name).mkdir(parents=True)
    shutil.copy(bucket.file(), folder / "wheels")
    for name in EVIDENCE:
        shutil.copy(bucket.evidence(name), folder / "evidence")
    texts = {"other/__init__.py": b"", "other-1.0.dist-info/METADATA": b"Name: other\n"}
    pack(folder / OTHER, {**texts, "other-1.0.dist-info/WHEEL": b"Tag: py3-none-any\n"})
    (folder / "models" / "m.gguf").write_bytes(b"GGUF")
    for name, path in programs().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / name)
    tool = f"hostwheel {__version__}"
    said = {"schema": 1, "tool": tool, "wheel": bucket.entry()["filename"]}
    (folder / "bundle.json").write_text(json.dumps(said))
    relist(folder)
    return folder


@pytest.fixture
def unsigned(bundle: Path) -> Path:
    (bundle / SIGNATURE).unlink()
    return bundle


def relist(bundle: Path, namespace: str = BUNDLE_NAMESPACE) -> None:
    """SHA256SUMS in line with what is there, and signed: by one who bundles, and did not build."""
    list_unsigned(bundle)
    (bundle / SIGNATURE).write_bytes(sign((bundle / SUMS).read_bytes(), key(), namespace))


def list_unsigned(bundle: Path) -> None:
    """SHA256SUMS in line with what is there, by someone without the key."""
    files = [path for path in bundle.rglob("*") if path.is_file() and SUMS not in path.name]
    hashes = {
        path.relative_to(bundle).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }
    (bundle / SUMS).write_bytes(sums(hashes))


def packed(bundle: Path) -> Path:
    target = bundle.with_suffix(".zip")
    with zipfile.ZipFile(target, "w") as archive:
        for path in sorted(bundle.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(bundle).as_posix())
    return target


def our_wheel(bundle: Path) -> Path:
    return next((bundle / "wheels").glob("llama_cpp*"))


@pytest.mark.parametrize("form", ["folder", "zip"])
def test_a_bundle_verifies(bundle: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    place = packed(bundle) if form == "zip" else bundle
    assert main(["verify", str(place), "--key", str(public())]) == 0
    out = capsys.readouterr().out
    assert "has the sha256 of SHA256SUMS" in out
    assert "the statement is of exactly these bytes" in out
    assert "smoke.json is what was published" in out
    assert f"signature: {OTHER}: who made this package" in out
    assert "refused" not in out


def altered_model(bundle: Path) -> None:
    (bundle / "models" / "m.gguf").write_bytes(b"GGUF!")


def model_gone(bundle: Path) -> None:
    (bundle / "models" / "m.gguf").unlink()


def compiled_module(bundle: Path) -> None:
    """Python would run it instead of the source that is listed."""
    (bundle / "installer.pyc").write_bytes(b"")


def sums_gone(bundle: Path) -> None:
    (bundle / SUMS).unlink()


def sums_damaged(bundle: Path) -> None:
    (bundle / SUMS).write_text("nonsense\n")


def wheel_altered(bundle: Path) -> None:
    """By someone who brings the lists in line."""
    with zipfile.ZipFile(our_wheel(bundle), "a") as archive:
        archive.comment = b"altered"
    relist(bundle)


def other_altered(bundle: Path) -> None:
    with zipfile.ZipFile(bundle / OTHER, "a") as archive:
        archive.writestr("other/more.py", "")
    relist(bundle)


def statement_gone(bundle: Path) -> None:
    (bundle / "evidence" / NAME).unlink()
    (bundle / SIGNATURE).unlink()
    list_unsigned(bundle)


def evidence_altered(bundle: Path) -> None:
    (bundle / "evidence" / "smoke.json").write_text("{}")
    relist(bundle)


@pytest.mark.parametrize(
    ("tamper", "told"),
    [
        (altered_model, "sums: models/m.gguf: sha256 "),
        (model_gone, "sums: models/m.gguf: is in SHA256SUMS and not in the bundle"),
        (compiled_module, "sums: installer.pyc: is in the bundle and not in SHA256SUMS"),
        (sums_gone, "sums: SHA256SUMS: is not in the bundle"),
        (sums_damaged, "sums: SHA256SUMS: line 1 has another form"),
        (wheel_altered, "subject: "),
        (other_altered, f"record: {OTHER}: other/more.py is not in RECORD"),
        (statement_gone, "statement: "),
        (evidence_altered, "evidence: "),
    ],
)
def test_tampering_with_a_bundle_is_named(
    bundle: Path,
    capsys: pytest.CaptureFixture[str],
    tamper: Callable[[Path], None],
    told: str,
) -> None:
    tamper(bundle)
    assert main(["verify", str(bundle), "--key", str(public())]) == 1
    assert told in capsys.readouterr().out.partition("refused:")[2]


# without the key


def line_changed(bundle: Path) -> None:
    altered_model(bundle)
    list_unsigned(bundle)


def signature_gone(bundle: Path) -> None:
    (bundle / SIGNATURE).unlink()


def signature_broken(bundle: Path) -> None:
    text = (bundle / SIGNATURE).read_text().splitlines()
    (bundle / SIGNATURE).write_text("\n".join([*text[:2], *text[3:]]))


def another_key(bundle: Path) -> None:
    (bundle / SIGNATURE).write_bytes(
        sign((bundle / SUMS).read_bytes(), key("other"), BUNDLE_NAMESPACE)
    )


def as_a_buckets(bundle: Path) -> None:
    relist(bundle, SUMS_NAMESPACE)


@pytest.mark.parametrize(
    ("tamper", "told"),
    [
        (line_changed, "signature: SHA256SUMS: does not hold: "),
        (signature_broken, "signature: SHA256SUMS: does not hold: "),
        (as_a_buckets, "signature: SHA256SUMS: does not hold: "),
        (signature_gone, "SHA256SUMS.sig is not there, so nobody vouches"),
        (another_key, "signer: SHA256SUMS: ED25519 key "),
    ],
)
@pytest.mark.parametrize("form", ["folder", "zip"])
def test_a_bundle_whose_list_nobody_known_signed(
    bundle: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    tamper: Callable[[Path], None],
    told: str,
    form: str,
) -> None:
    tamper(bundle)
    place = packed(bundle) if form == "zip" else bundle
    signers = allowed(tmp_path / "signers")
    assert main(["verify", str(place), "--allowed-signers", str(signers)]) == 1
    assert told in capsys.readouterr().out.partition("refused:")[2]


def install_altered(bundle: Path) -> None:
    with (bundle / "install.py").open("a") as file:
        file.write("import os\n")


def carried_altered(bundle: Path) -> None:
    (bundle / "hostwheel" / "user" / "carried" / "sums.py").write_text("")


def server_altered(bundle: Path) -> None:
    (bundle / "run-server.sh").write_text("#!/bin/sh\n")


def module_added(bundle: Path) -> None:
    (bundle / "hostwheel" / "facts" / "more.py").write_text("")


def module_instead_of_pythons(bundle: Path) -> None:
    """install.py imports it by this name, and its own folder comes first."""
    (bundle / "argparse.py").write_text("")


def package_instead_of_pythons(bundle: Path) -> None:
    (bundle / "json").mkdir()
    (bundle / "json" / "__init__.py").write_text("")


def program_gone(bundle: Path) -> None:
    (bundle / "hostwheel" / "facts" / "cpuid.py").unlink()


@pytest.mark.parametrize(
    ("tamper", "told"),
    [
        (install_altered, f"install.py: is not as hostwheel {__version__} writes it"),
        (carried_altered, "hostwheel/user/carried/sums.py: is not as "),
        (server_altered, "run-server.sh: is not as "),
        (module_added, "hostwheel/facts/more.py: is nothing that "),
        (module_instead_of_pythons, "argparse.py: is nothing that "),
        (package_instead_of_pythons, "json/__init__.py: is nothing that "),
        (program_gone, "hostwheel/facts/cpuid.py: is in every bundle of "),
    ],
)
def test_programs_that_nobody_signed_are_those_of_hostwheel(
    unsigned: Path, capsys: pytest.CaptureFixture[str], tamper: Callable[[Path], None], told: str
) -> None:
    """Whoever altered them has brought SHA256SUMS in line."""
    tamper(unsigned)
    list_unsigned(unsigned)
    assert main(["verify", str(unsigned)]) == 1
    refused = capsys.readouterr().out.partition("refused:")[2]
    assert f"programs: {told}" in refused
    assert "1 of " in refused


def test_programs_of_another_hostwheel_are_not_compared(
    unsigned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = json.loads((unsigned / "bundle.json").read_text())
    (unsigned / "bundle.json").write_text(json.dumps({**said, "tool": "hostwheel 99"}))
    install_altered(unsigned)
    list_unsigned(unsigned)
    assert main(["verify", str(unsigned)]) == 0
    out = capsys.readouterr().out.partition("not checked:")[2]
    assert "programs: bundle.json: made with hostwheel 99: that version can compare" in out


def test_an_unsigned_bundle_says_what_is_not_known(
    unsigned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(unsigned)]) == 0
    checked, _, unchecked = capsys.readouterr().out.partition("not checked:")
    assert f"programs: {len(programs())} files: as this hostwheel writes them" in checked
    assert "nobody signed this bundle" in unchecked


def test_a_signer_vouches_for_programs_of_another_hostwheel(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = json.loads((bundle / "bundle.json").read_text())
    (bundle / "bundle.json").write_text(json.dumps({**said, "tool": "hostwheel 99"}))
    relist(bundle)
    assert main(["verify", str(bundle)]) == 0
    assert "made with hostwheel 99" in capsys.readouterr().out
    assert main(["verify", str(bundle), "--key", str(public())]) == 0
    assert "programs" not in capsys.readouterr().out


def test_a_bundle_without_statement_is_told(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    statement_gone(bundle)
    assert main(["verify", str(bundle)]) == 0
    out = capsys.readouterr().out.partition("not checked:")[2]
    assert "so who built the wheel is unknown" in out


def test_a_signer_vouches_for_a_wheel_without_statement(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bundled from out/, which has none; it cannot be taken out of what is signed."""
    (bundle / "evidence" / NAME).unlink()
    relist(bundle)
    assert main(["verify", str(bundle), "--key", str(public())]) == 0
    out = capsys.readouterr().out.partition("not checked:")[2]
    assert "so who built the wheel is unknown" in out


@pytest.mark.parametrize("name", ["wheels/../install.py", "../x", "./x", "models//x"])
def test_a_name_in_a_zip_that_leads_elsewhere(
    name: str, unsigned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Programs that unpack differ in what they make of it."""
    place = packed(unsigned)
    with zipfile.ZipFile(place, "a") as archive:
        archive.writestr(name, "")
    assert main(["verify", str(place)]) == 1
    assert f"'{name}' is in the bundle, a name that leads elsewhere" in capsys.readouterr().out


def test_a_link_in_a_zip(unsigned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = packed(unsigned)
    link = zipfile.ZipInfo("models/more")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(place, "a") as archive:
        archive.writestr(link, "../hostwheel")
    assert main(["verify", str(place)]) == 1
    assert "models/more is a link" in capsys.readouterr().out


def test_a_wheel_with_an_archive_inside_is_told(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with zipfile.ZipFile(bundle / OTHER, "a") as archive:
        archive.writestr("other/data.zip", "nested")
    relist(bundle)
    assert main(["verify", str(bundle)]) == 0
    out = capsys.readouterr().out.partition("not checked:")[2]
    assert f"record: {OTHER}: member 'other/data.zip' is an archive inside" in out


def test_two_files_of_one_name_in_a_zip(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Programs differ in which of them they take."""
    place = packed(bundle)
    with zipfile.ZipFile(place, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("models/m.gguf", b"GGUF")
    assert main(["verify", str(place)]) == 1
    assert "models/m.gguf is in the bundle twice" in capsys.readouterr().out


def test_a_zip_that_is_no_bundle_is_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with zipfile.ZipFile(tmp_path / "some.zip", "w") as archive:
        archive.writestr("file.txt", "text")
    assert main(["verify", str(tmp_path / "some.zip")]) == 1
    assert "neither some.zip.statement.json nor statement.json" in capsys.readouterr().out
