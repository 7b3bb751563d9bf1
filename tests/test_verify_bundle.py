"""A bundle, packed or not: its list and who signed it, its programs, and its wheel's statement."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from hostwheel.__main__ import main
from hostwheel.trust.statement import NAME
from hostwheel.trust.sums import SIGNATURE, SUMS
from hostwheel.user.bundle_pack import member
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
