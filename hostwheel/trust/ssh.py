"""Signatures with SSH keys, by OpenSSH's own ssh-keygen: agents and FIDO keys work, and no service.

OpenSSH's PROTOCOL.sshsig has the format. A namespace keeps a signature that was made for one
purpose from being taken for another.
"""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from hostwheel.errors import BadInput, MachineLacks, Refused

SUMS_NAMESPACE = "sums@hostwheel"
STATEMENT_NAMESPACE = "statement@hostwheel"
BUNDLE_NAMESPACE = "bundle@hostwheel"
PROBE_NAMESPACE = "probe@hostwheel"

GET = (
    "signatures need ssh-keygen of OpenSSH 8.2 or newer on the PATH: "
    "apt-get install openssh-client, or dnf install openssh-clients"
)
MAKE = "`ssh-keygen -t ed25519 -f NEW` makes a key"
# What ssh-keygen says of a key that it cannot use → what to do.
REMEDIES = {
    "passphrase": "`ssh-add {key}` asks for it once, and then give the public key, {key}.pub",
    "too open": "others can read it, so OpenSSH does not use it: chmod 600 {key}",
    "public key": "this is no private key: give that, or have it in the agent (`ssh-add -l`)",
}
OTHER = "give a private key, or a public key whose private one `ssh-add -l` lists"
GOOD = re.compile(r'^Good "[^"]*" signature with (?P<kind>\S+) key (?P<fingerprint>\S+)$', re.M)
OLD = ("unknown option -- Y", "illegal option -- Y", "invalid option -- 'Y'")


@dataclass(frozen=True, kw_only=True, slots=True)
class Key:
    """A public key: its kind ("ED25519") and its fingerprint ("SHA256:…")."""

    kind: str
    fingerprint: str

    def __str__(self) -> str:
        return f"{self.kind} key {self.fingerprint}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Seal:
    """What is said to be signed, the armored signature, and the purpose that it has to be for."""

    data: bytes
    signature: bytes
    namespace: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Signers:
    """Whose signatures count: those of `key`, or of the people in the file `allowed`.

    `allowed` is what `man ssh-keygen` calls ALLOWED SIGNERS, `revoked` a key revocation list or a
    file of public keys.
    """

    key: Key | None = None
    allowed: Path | None = None
    revoked: Path | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What ssh-keygen said."""

    well: bool
    output: bytes
    complaint: str


def sign(data: bytes, key: Path, namespace: str) -> bytes:
    """The armored signature. `key` is a private key, or a public one whose private the agent has.

    With Ed25519 and RSA the same data give the same bytes. BadInput where the key cannot be used.
    """
    answer = keygen("-Y", "sign", "-q", "-n", namespace, "-f", str(key), given=data)
    if not answer.well:
        remedy = next((text for sign, text in REMEDIES.items() if sign in answer.complaint), OTHER)
        raise BadInput(f"{key}: cannot sign: {answer.complaint}; {remedy.format(key=key)}")
    return answer.output


def check_can_sign(key: Path) -> Key:
    """Sign something for nobody. BadInput where that fails: ask before anything is written."""
    found = read_key(key)
    sign(b"", key, PROBE_NAMESPACE)
    return found


def read_key(key: Path, remedy: str = MAKE) -> Key:
    """Of a private or a public key. BadInput for anything else; `remedy` is what to do then."""
    if not key.is_file():
        raise BadInput(f"{key}: no such file; {remedy.format(key=key)}")
    answer = keygen("-l", "-E", "sha256", "-f", str(key))
    parts = answer.output.decode(errors="replace").split()
    if not answer.well or len(parts) < 3:
        raise BadInput(f"{key}: no SSH key: {answer.complaint}; {remedy.format(key=key)}")
    return Key(kind=parts[-1].strip("()"), fingerprint=parts[1])


def check(seal: Seal) -> Key:
    """The key with which exactly these data were signed, for this purpose; Refused for none.

    Whose key it is, is another question: see `signers.py`.
    """
    answer = asked(seal, "-Y", "check-novalidate", "-n", seal.namespace)
    found = GOOD.search(answer.output.decode(errors="replace"))
    if not answer.well or found is None:
        raise Refused(f"does not hold: {answer.complaint}")
    return Key(kind=found["kind"], fingerprint=found["fingerprint"])


def asked(seal: Seal, *options: str) -> Answer:
    """ssh-keygen about a signature."""
    with TemporaryDirectory(prefix="hostwheel-signature-") as folder:
        file = Path(folder) / "signature"
        file.write_bytes(seal.signature)
        return keygen(*options, "-s", str(file), given=seal.data)


def keygen(*options: str, given: bytes = b"") -> Answer:
    """A passphrase is asked for on the terminal, by ssh-keygen itself."""
    try:
        done = subprocess.run(("ssh-keygen", *options), input=given, capture_output=True)
    except FileNotFoundError:
        raise MachineLacks(GET) from None
    complaint = done.stderr.decode(errors="replace").strip()
    if any(each in complaint for each in OLD):
        raise MachineLacks(f"this ssh-keygen is too old; {GET}")
    lines = (line for line in complaint.splitlines() if not line.startswith("@"))  # a frame
    first = next(lines, done.stdout.decode(errors="replace").strip()).rstrip(".")
    return Answer(well=done.returncode == 0, output=done.stdout, complaint=first)
