"""Who signed a bundle, and its programs where nobody known did."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hostwheel import __version__
from hostwheel.__main__ import main
from hostwheel.trust.ssh import BUNDLE_NAMESPACE, SUMS_NAMESPACE, sign
from hostwheel.trust.sums import SIGNATURE, SUMS
from hostwheel.user.bundle_programs import programs
from tests.signed import allowed, key, public
from tests.verified import list_unsigned, packed, relist, signed_bundle


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return signed_bundle(tmp_path)


@pytest.fixture
def unsigned(bundle: Path) -> Path:
    (bundle / SIGNATURE).unlink()
    return bundle


def line_changed(bundle: Path) -> None:
    (bundle / "models" / "m.gguf").write_bytes(b"GGUF!")
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


@pytest.mark.parametrize(
    ("tool", "told"),
    [
        ("hostwheel 99", "says that hostwheel 99 made it, whose programs hostwheel "),
        ("hostwheel 0.2.0rc1", "Verify it with that version, or have it signed"),
        ("other 1", "does not say which hostwheel made it"),
        ("hostwheel", "does not say which hostwheel made it"),
        (None, "does not say which hostwheel made it"),
    ],
)
def test_programs_that_cannot_be_compared_are_anyones(
    unsigned: Path, capsys: pytest.CaptureFixture[str], tool: str | None, told: str
) -> None:
    """Whoever alters the programs can alter that line too."""
    made_with(unsigned, tool)
    install_altered(unsigned)
    list_unsigned(unsigned)
    assert main(["verify", str(unsigned)]) == 1
    out = " ".join(capsys.readouterr().out.partition("refused:")[2].split())
    assert "programs: bundle.json: " in out
    assert told in out
    assert "can be anyone's" in out


def made_with(bundle: Path, tool: str | None) -> None:
    said = {**json.loads((bundle / "bundle.json").read_text()), "tool": tool}
    kept = {name: value for name, value in said.items() if value is not None}
    (bundle / "bundle.json").write_text(json.dumps(kept))


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
    made_with(bundle, "hostwheel 99")
    relist(bundle)
    assert main(["verify", str(bundle)]) == 1
    assert "says that hostwheel 99 made it" in capsys.readouterr().out
    assert main(["verify", str(bundle), "--key", str(public())]) == 0
    assert "programs" not in capsys.readouterr().out
