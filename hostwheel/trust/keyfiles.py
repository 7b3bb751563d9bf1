"""Files that a verifier was given: whose signatures count, and whose no longer.

ssh-keygen passes over lines that it cannot read, and says of a file without any other that the
signer is not in it. That is another thing: the file is wrong, not the signature.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from pathlib import Path

from hostwheel.errors import BadInput
from hostwheel.plan.files import read_file

KEY = re.compile(
    rb"(?:^|\s)(?P<kind>(?:sk-)?(?:ssh|ecdsa)-\S+)[ \t]+(?P<blob>AAAA[A-Za-z0-9+/]+=*)"
)
REVOCATION_LIST = b"SSHKRL\n\0"  # OpenSSH's PROTOCOL.krl
ALLOWED = 'NAME namespaces="*@hostwheel" ssh-ed25519 AAAA…'


def check_allowed(file: Path) -> None:
    """BadInput unless a line has people, and a key after them, as `man ssh-keygen` has it."""
    if not any(key is not None and key.start() for _, key in keys(read_file(file))):
        raise BadInput(
            f"{file}: names no signer: a line is `{ALLOWED}`, with the public key that the"
            " publisher gives; see ALLOWED SIGNERS in `man ssh-keygen`"
        )


def check_revoked(file: Path) -> None:
    """BadInput for a line that is no public key. ssh-keygen takes every key for revoked then."""
    text = read_file(file)
    if text.startswith(REVOCATION_LIST):
        return
    for number, key in keys(text):
        if key is None or key.start():
            raise BadInput(
                f"{file}: line {number} is no public key (`ssh-ed25519 AAAA…`), and the file no"
                " revocation list of ssh-keygen"
            )


def keys(text: bytes) -> Iterator[tuple[int, re.Match[bytes] | None]]:
    """Number of each line that says something, and the key in it."""
    for number, line in enumerate((each.strip() for each in text.splitlines()), 1):
        if line and not line.startswith(b"#"):
            found = KEY.search(line)
            yield number, found if found and is_key(found["kind"], found["blob"]) else None


def is_key(kind: bytes, blob: bytes) -> bool:
    """Whether the blob begins with its kind, as RFC 4253 has it."""
    try:
        content = base64.b64decode(blob, validate=True)
    except binascii.Error:
        return False
    return content.startswith(len(kind).to_bytes(4, "big") + kind)
