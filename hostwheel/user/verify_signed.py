"""A signature looked at: does it hold, and whose is it?"""

from collections.abc import Iterator

from hostwheel.errors import Refused
from hostwheel.trust.signers import signer
from hostwheel.trust.ssh import Seal, Signers, check
from hostwheel.user.verify_finding import About, Finding

UNKNOWN = "whose key that is: give --allowed-signers FILE, or --key FILE.pub"


def signature_findings(
    about: About, seal: Seal, signers: Signers | None, claimed: str | None = None
) -> Iterator[Finding]:
    """Of an SSH signature. `claimed` is the fingerprint that stands beside it."""
    try:
        key = check(seal)
    except Refused as error:
        yield about.refused("signature", str(error))
        return
    if claimed not in (None, key.fingerprint):
        yield about.refused("signature", f"{claimed} is named as its key, and it is of {key}")
        return
    yield about.checked("signature", f"signed with {key}")
    if signers is None:
        yield about.not_checked("signer", UNKNOWN)
        return
    try:
        name = signer(key, seal, signers)
    except Refused as error:
        yield about.refused("signer", str(error))
        return
    yield about.checked("signer", f"the key is that of {name}" if signers.allowed else name)
