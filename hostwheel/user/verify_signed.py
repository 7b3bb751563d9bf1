"""A signature looked at: does it hold, and whose is it?"""

from collections.abc import Iterator

from hostwheel.errors import Refused
from hostwheel.trust.ssh import Signers, check, signer
from hostwheel.user.verify_finding import About, Finding

UNKNOWN = "whose key that is: give --allowed-signers FILE, or --key FILE.pub"


def signature_findings(
    about: About, data: bytes, signature: bytes, namespace: str, signers: Signers | None
) -> Iterator[Finding]:
    """Of an SSH signature of these data."""
    try:
        key = check(data, signature, namespace)
    except Refused as error:
        yield about.refused("signature", str(error))
        return
    yield about.checked("signature", f"signed with {key}")
    if signers is None:
        yield about.not_checked("signer", UNKNOWN)
        return
    try:
        name = signer(data, signature, namespace, signers)
    except Refused as error:
        yield about.refused("signer", str(error))
        return
    yield about.checked("signer", f"the key is that of {name}" if signers.allowed else name)
