"""What verifies of what we publish, by whose key, and what the command says of the rest."""

import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from hostwheel.__main__ import main
from hostwheel.trust.statement import NAME
from hostwheel.user.verify_files import LIMIT_BYTES
from tests.buckets import serving
from tests.signed import Published, allowed, public, put_up, signed_bucket
from tests.verified import refusals, verify


@pytest.fixture
def bucket(tmp_path: Path) -> Published:
    return signed_bucket(tmp_path)


# what holds


@pytest.mark.parametrize("whose", ["key", "allowed", "nobody"])
def test_what_we_publish_verifies(
    bucket: Published, tmp_path: Path, capsys: pytest.CaptureFixture[str], whose: str
) -> None:
    options: Mapping[str, tuple[str | Path, ...]] = {
        "key": ("--key", public()),
        "allowed": ("--allowed-signers", allowed(tmp_path / "signers")),
        "nobody": (),
    }
    code, out = verify(capsys, bucket.folder, *options[whose])
    assert code == 0, out
    assert "refused" not in out
    assert "signature: 4 files: signed with ED25519 key SHA256:" in out
    assert "subject: 3 files: the statement is of exactly these bytes" in out
    assert "record: 2 files: the files in it are those of its RECORD" in out
    assert ("whose key that is" in out) == (whose == "nobody")
    assert ("the key is that of release@example.org" in out) == (whose == "allowed")
    assert "yanks, times of upload" in out


def test_over_http_it_verifies_too(bucket: Published, capsys: pytest.CaptureFixture[str]) -> None:
    files = [path for path in bucket.folder.rglob("*") if path.is_file()]
    held = {
        path.relative_to(bucket.folder).as_posix(): (path.read_bytes(), "text/plain")
        for path in files
    }
    with serving(held) as server:
        code, out = verify(capsys, server.url, "--key", public())
        assert code == 0, out
        asked = Counter(server.asked)
        assert bucket.evidence("audit.json").relative_to(bucket.folder).as_posix() in " ".join(
            asked
        )
        assert set(asked.values()) == {1}
        held.pop(bucket.file().relative_to(bucket.folder).as_posix())
        code, out = verify(capsys, server.url)
    assert code == 1
    assert "is nothing, not sha256" in out


def test_unsigned_is_said_and_is_refused_where_a_signer_was_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put_up(tmp_path / "bucket", None)
    code, out = verify(capsys, tmp_path / "bucket")
    assert code == 0, out
    assert "not signed, so who published it is unknown" in out
    refused = refusals(capsys, tmp_path / "bucket", "--key", public())
    assert {each.check for each in refused} == {"signature", "statement"}


def test_earlier_generations_are_told(
    bucket: Published, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "earlier generations" not in verify(capsys, bucket.folder)[1]
    name = bucket.entry()["filename"]
    assert main(["yank", str(bucket.folder), name, "--reason", "a test"]) == 0
    code, out = verify(capsys, bucket.folder)
    assert code == 0, out
    assert "earlier generations of the catalog" in out.partition("not checked:")[2]


# signers


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ('valid-before="20200101"', "key has expired"),
        ('namespaces="git"', "not permitted for use in signature namespace"),
    ],
)
def test_a_signer_whose_key_is_not_for_this(
    bucket: Published,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: str,
    message: str,
) -> None:
    signers = allowed(tmp_path / "signers", options=options)
    refused = refusals(capsys, bucket.folder, "--allowed-signers", signers)
    assert {each.check for each in refused} == {"signer"}
    assert all(message in each.message for each in refused)


def test_an_unknown_and_a_revoked_signer(
    bucket: Published, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unknown = ("--allowed-signers", allowed(tmp_path / "unknown", "other"))
    code, out = verify(capsys, bucket.folder, *unknown)
    assert code == 1
    assert "is not among" in out
    known = ("--allowed-signers", allowed(tmp_path / "known"))
    code, out = verify(capsys, bucket.folder, *known, "--revoked", public())
    assert code == 1
    assert f"key of release@example.org: revoked in {public()}" in out
    code, _ = verify(capsys, bucket.folder, *known, "--revoked", public("other"))
    assert code == 0


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--revoked", public), "goes with --allowed-signers"),
        (("--allowed-signers", Path("nowhere")), "nowhere"),
        (("--allowed-signers", Path(__file__)), "names no signer"),
        (("--allowed-signers", public), "names no signer"),
        (("--key", Path("nowhere")), "no such file; the publisher gives it"),
        (("--key", Path(__file__)), "no SSH key"),
    ],
)
def test_options_that_cannot_be_meant(
    bucket: Published,
    capsys: pytest.CaptureFixture[str],
    argv: tuple[str, Path | Callable[[], Path]],
    message: str,
) -> None:
    option, value = argv
    path = value() if callable(value) else value
    assert main(["verify", str(bucket.folder), option, str(path)]) == 2
    assert message in capsys.readouterr().err


def test_a_file_for_revoked_keys_that_has_none_is_not_a_revoked_key(
    bucket: Published, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """ssh-keygen answers as if the key were in it."""
    known = str(allowed(tmp_path / "known"))
    argv = ["verify", str(bucket.folder), "--allowed-signers", known, "--revoked", __file__]
    assert main(argv) == 2
    assert "line 1 is no public key" in capsys.readouterr().err


def test_a_line_of_the_signers_that_ssh_keygen_cannot_read(
    bucket: Published, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    signers = allowed(tmp_path / "signers", options='valid-before="yesterday"')
    assert main(["verify", str(bucket.folder), "--allowed-signers", str(signers)]) == 2
    assert f"{signers}:1: bad options" in capsys.readouterr().err


def test_without_ssh_keygen_it_says_how_to_get_it(
    bucket: Published, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["verify", str(bucket.folder)]) == 3
    assert "apt-get install openssh-client" in capsys.readouterr().err


def test_an_old_ssh_keygen_is_not_a_wrong_signature(
    bucket: Published,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As OpenSSH 8.0 of RHEL 8 answers."""
    old = tmp_path / "ssh-keygen"
    old.write_text("#!/bin/sh\necho 'ssh-keygen: unknown option -- Y' >&2\nexit 1\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert main(["verify", str(bucket.folder)]) == 3
    assert "too old" in capsys.readouterr().err


# a file with its statement beside it


@pytest.fixture
def wheel(bucket: Published, tmp_path: Path) -> Path:
    """Downloaded, with its statement."""
    file = shutil.copy(bucket.file(), tmp_path)
    shutil.copy(bucket.evidence(NAME), f"{file}.{NAME}")
    return Path(file)


def test_a_file_with_its_statement(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = verify(capsys, wheel, "--key", public())
    assert code == 0, out
    assert "the statement is of exactly these bytes" in out
    assert "build.json is not beside it" in out


def test_evidence_beside_a_file_is_checked(
    wheel: Path, bucket: Published, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(bucket.evidence("build.json"), wheel.parent)
    assert "build.json is what was published" in verify(capsys, wheel)[1]
    (wheel.parent / "build.json").write_text("{}")
    code, out = verify(capsys, wheel)
    assert code == 1
    assert "evidence: " in out


def test_a_variant_copy_has_the_statement_of_its_wheel(
    bucket: Published, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = shutil.copy(bucket.file("variant"), tmp_path)
    shutil.copy(bucket.evidence(NAME, "variant"), tmp_path / NAME)
    assert verify(capsys, file, "--key", public())[0] == 0


def test_a_file_without_its_statement(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path(f"{wheel}.{NAME}").unlink()
    code, out = verify(capsys, wheel)
    assert code == 1
    assert "statement: " in out
    assert "is beside it: fetch it from the bucket" in out


def test_a_statement_that_is_too_large(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Path(f"{wheel}.{NAME}").open("ab") as file:
        file.truncate(LIMIT_BYTES + 1)
    assert main(["verify", str(wheel)]) == 2
    assert "larger than 67,108,864 bytes" in capsys.readouterr().err


def test_a_file_under_another_name(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Installers believe file names."""
    other = wheel.rename(wheel.with_name(wheel.name.replace("avx2", "avx512")))
    Path(f"{wheel}.{NAME}").rename(f"{other}.{NAME}")
    code, out = verify(capsys, other)
    assert code == 1
    assert "the statement is of another file" in out


def test_a_file_cut_short(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel.write_bytes(wheel.read_bytes()[:-100])
    code, out = verify(capsys, wheel, "--key", public())
    assert code == 1
    assert "damaged or cut short" in out


@pytest.mark.parametrize("where", ["nothing", ".", "ftp://example.org/x"])
def test_what_is_none_of_the_three(
    where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["verify", where]) == 2
    assert capsys.readouterr().err
