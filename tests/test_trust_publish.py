"""Publishing with a key: what is signed, by whom, and what is not signed for anyone."""

import shutil
from pathlib import Path

import pytest

from hostwheel.__main__ import main
from hostwheel.errors import Refused
from hostwheel.publish.bucket import Bucket
from hostwheel.publish.evidence import Evidence, read_evidence
from hostwheel.publish.fsck import fsck
from hostwheel.publish.generations import newest
from hostwheel.publish.publish import Published, add, publish
from hostwheel.publish.settle import settle
from hostwheel.publish.sign import sign_sums
from hostwheel.publish.yank import yank
from hostwheel.trust.ssh import SUMS_NAMESPACE, Seal, check, read_key, sign
from hostwheel.trust.statement import NAME
from hostwheel.trust.sums import SIGNATURE, SUMS, read_sums
from tests.buckets import entry_of, tiny_wheel
from tests.proved import PASSED, proved, write_smoke
from tests.signed import key, public
from tests.stores import Before, Counting, Crashed, Crashing, Memory


@pytest.fixture(scope="session")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return read_evidence(proved(tmp_path_factory.mktemp("signed")))


def put_up(evidence: Evidence, bucket: Bucket, signing: Path | None) -> Published:
    return publish(evidence, bucket, lambda name, done, total: None, signing)


def signed_by(bucket: Bucket) -> object:
    """The key of SHA256SUMS, or why there is none."""
    text, signature = bucket.read(SUMS), bucket.read(SIGNATURE)
    if text is None or signature is None:
        return "unsigned"
    try:
        return check(Seal(data=text, signature=signature, namespace=SUMS_NAMESPACE))
    except Refused:
        return "stale"


def stranger(bucket: Bucket, folder: Path) -> str:
    """A wheel that someone put into bucket and catalog without any key."""
    wheel = tiny_wheel(folder, "9.9+cpu.avx2")
    add(bucket, newest(bucket), [entry_of(wheel, "other")])
    return wheel.name


def test_signed_publishing(evidence: Evidence) -> None:
    bucket = Memory()
    done = put_up(evidence, bucket, key())
    assert all(NAME in each.evidence for each in done.entries)
    by_kind = {each.kind: each for each in done.entries}
    assert by_kind["wheel"].evidence == by_kind["variant"].evidence
    assert by_kind["wheel"].evidence[NAME] != by_kind["archive"].evidence[NAME]
    assert signed_by(bucket) == read_key(public())
    lines = read_sums(bucket.read(SUMS) or b"")
    assert lines == {each.filename: each.sha256 for each in done.entries}
    assert bucket.held[SIGNATURE][0].cache_control == "max-age=60"
    assert fsck(bucket).faults == ()


def test_publishing_again_with_the_same_key_changes_nothing(evidence: Evidence) -> None:
    bucket = Memory()
    put_up(evidence, bucket, key())
    before = bucket.state()
    assert put_up(evidence, bucket, key()).changed == ()
    assert bucket.state() == before


def test_unsigned_publishing_has_sums_and_no_statements(evidence: Evidence) -> None:
    bucket = Memory()
    done = put_up(evidence, bucket, None)
    assert all(NAME not in each.evidence for each in done.entries)
    assert signed_by(bucket) == "unsigned"
    assert set(read_sums(bucket.read(SUMS) or b"")) == {each.filename for each in done.entries}
    assert fsck(bucket).faults == ()


def test_the_first_who_signs_takes_over_what_is_there(
    evidence: Evidence, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket = Memory()
    name = stranger(bucket, tmp_path)
    put_up(evidence, bucket, key())
    assert "signed for the first time, with 1 older files" in capsys.readouterr().err
    assert signed_by(bucket) == read_key(public())
    assert name in read_sums(bucket.read(SUMS) or b"")


@pytest.mark.parametrize(
    ("signing", "message"), [(None, "publish with --key"), ("other", "publish with that key")]
)
def test_a_signed_bucket_takes_nothing_unsigned_and_no_other_key(
    evidence: Evidence, signing: str | None, message: str
) -> None:
    bucket = Memory()
    put_up(evidence, bucket, key())
    before = bucket.state()
    with pytest.raises(Refused, match=message):
        put_up(evidence, bucket, key(signing) if signing else None)
    assert bucket.state() == before


def test_what_someone_slipped_into_the_catalog_is_not_signed(
    evidence: Evidence, tmp_path: Path
) -> None:
    bucket = Memory()
    put_up(evidence, bucket, key())
    name = stranger(bucket, tmp_path)
    with pytest.raises(Refused, match="has not signed it before") as refused:
        put_up(evidence, bucket, key())
    assert name in str(refused.value)
    assert signed_by(bucket) == "stale"


def test_sums_that_someone_changed_are_not_signed(evidence: Evidence) -> None:
    """Just between our two phases; what is not the catalog's has no statement either."""
    bucket = Memory()
    put_up(evidence, bucket, key())
    body = (bucket.read(SUMS) or b"") + b"0" * 64 + b"  evil.whl\n"
    bucket.edit(SUMS, body)
    with pytest.raises(Refused, match=r"evil\.whl is in SHA256SUMS"):
        sign_sums(bucket, key(), {})


def test_two_publishers_with_one_key(evidence: Evidence, tmp_path: Path) -> None:
    """Who comes second signs what the first one stated."""
    out = proved(tmp_path)
    write_smoke(out, [PASSED])
    bucket = Memory()
    put_up(evidence, bucket, key())
    other = read_evidence(out)
    between = Before(bucket, SIGNATURE, lambda: put_up(other, bucket, key()))
    bucket.delete(SIGNATURE)
    put_up(evidence, between, key())
    assert between.happened
    assert signed_by(bucket) == read_key(public())
    assert fsck(bucket).faults == ()


def test_a_line_of_another_publisher_counts_by_its_statement(evidence: Evidence) -> None:
    bucket = Memory()
    put_up(evidence, bucket, key())
    sign_sums(bucket, key(), {})  # nothing is known but by its statement
    with pytest.raises(Refused, match="has not signed it before"):
        sign_sums(bucket, key("other"), {})


def test_whoever_is_stopped_before_signing_is_made_up_for_by_the_next(evidence: Evidence) -> None:
    """The signature is the last write."""
    counted = Counting(Memory())
    put_up(evidence, counted, key())
    for left in (1, counted.writes - 2, counted.writes - 1):
        bucket = Memory()
        with pytest.raises(Crashed):
            put_up(evidence, Crashing(bucket, left), key())
        assert signed_by(bucket) == "unsigned"
        put_up(evidence, bucket, key())
        assert signed_by(bucket) == read_key(public())


def test_an_old_signature_of_an_older_list_is_made_up_for(evidence: Evidence) -> None:
    bucket = Memory()
    put_up(evidence, bucket, key())
    bucket.edit(SIGNATURE, sign(b"an older list", key(), SUMS_NAMESPACE))
    assert signed_by(bucket) == "stale"
    put_up(evidence, bucket, key())
    assert signed_by(bucket) == read_key(public())


def test_yanking_needs_no_key(evidence: Evidence) -> None:
    bucket = Memory()
    done = put_up(evidence, bucket, key())
    yank(bucket, done.entries[0].filename, "why")
    assert signed_by(bucket) == read_key(public())
    settle(bucket, newest(bucket))
    assert fsck(bucket).faults == ()


def test_a_statement_that_is_gone_is_found_by_fsck(evidence: Evidence) -> None:
    bucket = Memory()
    sha256 = put_up(evidence, bucket, key()).entries[0].evidence[NAME]
    bucket.delete(f"objects/{sha256[:2]}/{sha256}/{NAME}")
    assert {fault.kind for fault in fsck(bucket).faults} == {
        "missing",
        "dangling",
    }  # the page's link


def test_on_the_command_line_it_says_whether_it_is_signed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, bucket = str(proved(tmp_path)), str(tmp_path / "bucket")
    assert main(["publish", out, "--to", bucket, "--dry-run"]) == 0
    assert "not signed: --key FILE" in capsys.readouterr().out
    signing = ["publish", out, "--to", bucket, "--key", str(key())]
    assert main([*signing, "--dry-run"]) == 0
    assert f"\nwould be signed with {read_key(public())}\n" in capsys.readouterr().out
    assert main(signing) == 0
    assert f"\nsigned with {read_key(public())}\n" in capsys.readouterr().out
    assert main(["publish", out, "--to", bucket, "--key", str(tmp_path / "none")]) == 2
    assert "no such file" in capsys.readouterr().err


@pytest.mark.parametrize(("kind", "code"), [("public", 2), ("unsafe", 2), ("no ssh-keygen", 3)])
def test_a_key_that_cannot_sign_is_told_before_anything_is_written(
    kind: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, bucket = str(proved(tmp_path)), tmp_path / "bucket"
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    given = Path(shutil.copy(public() if kind == "public" else key(), tmp_path / "given"))
    given.chmod(0o644 if kind == "unsafe" else 0o600)
    if kind == "no ssh-keygen":
        monkeypatch.setenv("PATH", "/nowhere")
    assert main(["publish", out, "--to", str(bucket), "--key", str(given)]) == code
    assert not bucket.exists()
