"""Files of signers, as `man ssh-keygen` has them: all that ssh-keygen takes is taken."""

from pathlib import Path

import pytest

from hostwheel.errors import BadInput, Refused
from hostwheel.trust.keyfiles import check_allowed
from hostwheel.trust.signers import signer
from hostwheel.trust.ssh import SUMS_NAMESPACE, Seal, Signers, check, sign
from tests.signed import key, public

KEY = " ".join(public().read_text().split()[:2])
OTHER = " ".join(public("other").read_text().split()[:2])
OURS = f'me@x namespaces="*@hostwheel" {KEY}\n'


def name_of(text: str, tmp_path: Path, revoked: Path | None = None) -> str:
    """Who has signed, by a file of signers."""
    file = tmp_path / "signers"
    file.write_text(text)
    check_allowed(file)
    made = sign(b"data", key(), SUMS_NAMESPACE)
    seal = Seal(data=b"data", signature=made, namespace=SUMS_NAMESPACE)
    return signer(check(seal), seal, Signers(allowed=file, revoked=revoked))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"\n \n{OURS}", "me@x"),
        (f"  # of us\n  {OURS}", "me@x"),
        (f"me@x\t {KEY.replace(' ', '   ')}\r\n", "me@x"),
        (f'git@x namespaces="git" {KEY}\n{OURS}', "me@x"),
        (f'git@x valid-before="20200101" {KEY}\n{OURS}', "me@x"),
        (f"no line\nme@x\n{OURS}", "me@x"),
        (f'other@x valid-before="yesterday" {OTHER}\n{OURS}', "me@x"),
        (f'"release team" {KEY}\n', "release team"),
        (f"a@x,b@x {KEY}\n", "a@x"),
        (f"!bad@x,*@x {KEY}\n", "*@x"),
    ],
)
def test_who_signed(text: str, name: str, tmp_path: Path) -> None:
    assert name_of(text, tmp_path) == name


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"\n\nother@x {OTHER}\n", "is not among .*/signers: No principal matched"),
        (f"\nca@x cert-authority {KEY}\n", "is not among "),
        (f'\ngit@x namespaces="git" {KEY}\n', "key of git@x: .*namespace"),
        (f'no line\ngit@x namespaces="git" {KEY}\n', "key of git@x: .*namespace"),
        (f'\nme@x valid-before="20200101" {KEY}\n', "/signers:2: key has expired"),
    ],
)
def test_a_signer_who_is_none(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=told):
        name_of(text, tmp_path)


def test_a_line_that_may_be_meant(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"/signers:2: bad options: .*: mend that line"):
        name_of(f'other@x {OTHER}\nme@x valid-before="yesterday" {KEY}\n', tmp_path)


def test_a_revoked_key_is_so_in_every_line(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="key of me@x: revoked in "):
        name_of(f"{OURS}you@x {KEY}\n", tmp_path, public())
