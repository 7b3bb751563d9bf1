"""A signature looked at: does it hold, and whose is it?"""

from collections.abc import Iterator, Sequence

from hostwheel.errors import Refused
from hostwheel.trust.signers import signer
from hostwheel.trust.ssh import Seal, Signers, check
from hostwheel.user.verify_finding import About, Finding

SIGNED = "signed with "
KEYS = (
    "not all by one key: {}. Its publisher has changed keys, or somebody else has put files there:"
    " ask, and name the keys with --allowed-signers FILE"
)
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
    yield about.checked("signature", f"{SIGNED}{key}")
    if signers is None:
        yield about.not_checked("signer", UNKNOWN)
        return
    try:
        name = signer(key, seal, signers)
    except Refused as error:
        yield about.refused("signer", str(error))
        return
    yield about.checked("signer", f"the key is that of {name}" if signers.allowed else name)


def keys_findings(found: Sequence[Finding]) -> Iterator[Finding]:
    """Whether all that was found to be signed is so by one key, where nobody knows whose it is."""
    signed: dict[str, list[str]] = {}
    for each in found:
        if each.check == "signature" and each.outcome == "checked":
            signed.setdefault(each.message.removeprefix(SIGNED), []).append(each.about)
    if len(signed) > 1:
        told = (f"{', '.join(names)} by {key}" for key, names in signed.items())
        yield About(name="bucket").not_checked("signer", KEYS.format("; ".join(told)))
