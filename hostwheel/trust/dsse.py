"""DSSE envelopes (secure-systems-lab/dsse, protocol 1.0.2) whose signatures are made by SSH keys.

`sig` is the SSH signature of the PAE in the namespace "statement@hostwheel": the base64 that stands
between the two lines of its armor, without line ends. `keyid` is the fingerprint of the key.
"""

import base64
import binascii
import json
import textwrap
from dataclasses import dataclass
from pathlib import Path

from hostwheel.errors import Refused
from hostwheel.trust.ssh import STATEMENT_NAMESPACE, Seal, read_key, sign

PAYLOAD_TYPE = "application/vnd.in-toto+json"
BEGIN, END = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----"
LINE = 70  # as ssh-keygen writes it


@dataclass(frozen=True, kw_only=True, slots=True)
class Envelope:
    """What was signed and how; `signature` is armored, `keyid` a claim."""

    payload: bytes
    keyid: str
    signature: bytes

    @property
    def seal(self) -> Seal:
        """The signature is of DSSE's pre-authentication encoding, PAE."""
        return Seal(
            data=pae(PAYLOAD_TYPE, self.payload),
            signature=self.signature,
            namespace=STATEMENT_NAMESPACE,
        )


def pae(payload_type: str, payload: bytes) -> bytes:
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def seal(payload: bytes, key: Path) -> bytes:
    """The envelope of a payload, as a file holds it. BadInput where the key cannot be used."""
    signature = sign(pae(PAYLOAD_TYPE, payload), key, STATEMENT_NAMESPACE)
    content = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [{"keyid": read_key(key).fingerprint, "sig": bare(signature)}],
    }
    return (json.dumps(content, indent=1) + "\n").encode()


def read_envelope(text: bytes) -> Envelope:
    """Refused for what is no envelope of a statement with one signature, or is cut short."""
    try:
        content = json.loads(text)
        kind, signatures = content["payloadType"], content["signatures"]
        if kind != PAYLOAD_TYPE or len(signatures) != 1:
            found = f"{kind} with {len(signatures)} signatures"
            raise Refused(f"is {found}, expected {PAYLOAD_TYPE} with one")
        return Envelope(
            payload=base64.b64decode(content["payload"], validate=True),
            keyid=str(signatures[0]["keyid"]),
            signature=armored(str(signatures[0]["sig"])),
        )
    except (ValueError, KeyError, TypeError, binascii.Error, RecursionError) as error:
        raise Refused(
            f"is no DSSE envelope, or is cut short: {type(error).__name__}: {error}"
        ) from None


def bare(signature: bytes) -> str:
    return "".join(signature.decode().split("\n")[1:-2])


def armored(sig: str) -> bytes:
    return "\n".join((BEGIN, *textwrap.wrap(sig, LINE), END, "")).encode()
