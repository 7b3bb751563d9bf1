"""A bundle, packed or not: its list and who signed it, its programs, and its wheel's statement."""

import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from hostwheel.__main__ import main
from hostwheel.trust.statement import NAME
from hostwheel.trust.sums import SIGNATURE, SUMS
from hostwheel.user.bundle_pack import member
from hostwheel.user.verify_files import LIMIT_BYTES
from tests.signed import public
from tests.verified import OTHER, list_unsigned, our_wheel, packed, relist, signed_bundle


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return signed_bundle(tmp_path)


@pytest.fixture
def unsigned(bundle: Path) -> Path:
    (bundle / SIGNATURE).unlink()
    return bundle


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


def said_damaged(bundle: Path) -> None:
    (bundle / "bundle.json").write_text("{")


def said_damaged_and_relisted(bundle: Path) -> None:
    said_damaged(bundle)
    relist(bundle)


def said_nested(bundle: Path) -> None:
    (bundle / "bundle.json").write_text("[" * 100_000)
    relist(bundle)


def said_of_no_wheel(bundle: Path) -> None:
    """Then ours would be held against no statement."""
    said = json.loads((bundle / "bundle.json").read_text())
    (bundle / "bundle.json").write_text(json.dumps({**said, "wheel": "../install.py"}))
    relist(bundle)


def said_gone(bundle: Path) -> None:
    (bundle / "bundle.json").unlink()


def said_gone_and_relisted(bundle: Path) -> None:
    said_gone(bundle)
    relist(bundle)


def listed_pipe(bundle: Path) -> None:
    (bundle / "models" / "m.gguf").unlink()
    os.mkfifo(bundle / "models" / "m.gguf")


def long_list(bundle: Path) -> None:
    with (bundle / SUMS).open("ab") as file:
        file.truncate(LIMIT_BYTES + 1)


def long_evidence(bundle: Path) -> None:
    with (bundle / "evidence" / "smoke.json").open("ab") as file:
        file.truncate(LIMIT_BYTES + 1)
    relist(bundle)


@pytest.mark.parametrize(
    ("tamper", "told"),
    [
        (said_damaged, "sums: bundle.json: sha256 "),
        (said_damaged, "programs: bundle.json: cannot be read (JSONDecodeError"),
        (said_damaged_and_relisted, "programs: bundle.json: cannot be read (JSONDecodeError"),
        (said_nested, "programs: bundle.json: cannot be read (RecursionError"),
        (said_of_no_wheel, "programs: bundle.json: names '../install.py', which is not in wheels/"),
        (said_gone, "sums: bundle.json: is in SHA256SUMS and not in the bundle"),
        (said_gone, "programs: bundle.json: is not in the bundle: no hostwheel wrote it so"),
        (said_gone_and_relisted, "programs: bundle.json: is not in the bundle"),
        (listed_pipe, "sums: bundle: models/m.gguf is no file"),
        (long_list, "sums: SHA256SUMS: SHA256SUMS is larger than 67,108,864 bytes"),
        (long_evidence, "evidence/smoke.json is larger than 67,108,864 bytes"),
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
    refused = capsys.readouterr().out.partition("refused:")[2]
    assert told in " ".join(refused.split())


@pytest.mark.parametrize("tamper", [said_damaged, said_gone, said_gone_and_relisted])
def test_a_packed_bundle_is_one_without_its_bundle_json(
    bundle: Path, capsys: pytest.CaptureFixture[str], tamper: Callable[[Path], None]
) -> None:
    tamper(bundle)
    assert main(["verify", str(packed(bundle)), "--key", str(public())]) == 1
    assert "programs: bundle.json: " in capsys.readouterr().out.partition("refused:")[2]


def test_a_zip_cut_short(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = packed(bundle)
    place.write_bytes(place.read_bytes()[:-5000])
    assert main(["verify", str(place)]) == 2
    assert "a damaged or cut-short zip file" in capsys.readouterr().err


def test_a_zip_that_lacks_bytes_within(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What comes after them is not at fault."""
    place = packed(bundle)
    text = place.read_bytes()
    at = text.index((bundle / "install.py").read_bytes())
    place.write_bytes(text[: at + 50] + text[at + 80 :])
    assert main(["verify", str(place)]) == 1
    refused = capsys.readouterr().out.partition("refused:")[2]
    assert "bundle.zip: is damaged, or is not in the form" in refused
    assert ".py" not in refused


def test_a_damaged_member_of_a_zip(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = packed(bundle)
    place.write_bytes(place.read_bytes().replace(b"m.ggufGGUF", b"m.ggufGGUG"))
    assert main(["verify", str(place), "--key", str(public())]) == 1
    refused = capsys.readouterr().out.partition("refused:")[2]
    assert "sums: models/m.gguf: is damaged: Bad CRC-32" in refused
    assert "1 of " in refused


@pytest.mark.parametrize("what", ["pipe", "/dev/zero"])
def test_what_may_never_end_is_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert main(["verify", str(tmp_path / what)]) == 2
    assert "it is a folder, pipe or device; give a file" in capsys.readouterr().err


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


@pytest.mark.parametrize("name", ["wheels/../install.py", "../x", "./x", "models//x", "argparse/"])
def test_a_name_in_a_zip_that_leads_elsewhere(
    name: str, unsigned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Programs that unpack differ in what they make of it."""
    place = packed(unsigned)
    with zipfile.ZipFile(place, "a") as archive:
        archive.writestr(member(name), "")
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
        archive.writestr(member("models/m.gguf"), b"GGUF")
    assert main(["verify", str(place)]) == 1
    assert "models/m.gguf is in the bundle twice" in capsys.readouterr().out


def test_a_zip_that_is_no_bundle_is_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with zipfile.ZipFile(tmp_path / "some.zip", "w") as archive:
        archive.writestr("file.txt", "text")
    assert main(["verify", str(tmp_path / "some.zip")]) == 1
    assert "neither some.zip.statement.json nor statement.json" in capsys.readouterr().out
