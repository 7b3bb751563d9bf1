"""The programs in a bundle that no signer vouches for, against those of this hostwheel."""

import re
from collections.abc import Iterator, Mapping

from hostwheel import __version__
from hostwheel.artifact.contents import sha256
from hostwheel.user.bundle_programs import programs
from hostwheel.user.carried.sums import FILES, FOLDERS, SAID
from hostwheel.user.verify_finding import About, Finding

TOOL = f"hostwheel {__version__}"
FORM = re.compile(r"hostwheel \d+(\.\d+)*[a-z0-9.+]*$", re.ASCII)
NONE = "does not say which hostwheel made it, so no hostwheel did: its programs can be anyone's"
OTHER = (
    f"says that {{}} made it, whose programs {TOOL} cannot compare: they can be anyone's. Verify it"
    " with that version, or have it signed and say by whom (--key, --allowed-signers)"
)


def program_findings(listed: Mapping[str, str], tool: str) -> Iterator[Finding]:
    """`listed` is the bundle's SHA256SUMS, which its files agree with or are refused for.

    `tool` is what the bundle says that it was made with, be it true or not. Files that hostwheel
    puts into no bundle are refused too: Python looks for modules beside install.py first.
    """
    if tool != TOOL:
        yield About(name=SAID).refused("programs", OTHER.format(tool) if FORM.match(tool) else NONE)
        return
    own = {name: sha256(path) for name, path in programs().items()}
    for name in sorted({*own, *listed}):
        about = About(name=name)
        if name not in listed:
            yield about.refused("programs", f"is in every bundle of {TOOL}, and not in this one")
        elif name in own and listed[name] != own[name]:
            yield about.refused("programs", f"is not as {TOOL} writes it")
        elif name in own:
            yield about.checked("programs", "as this hostwheel writes them")
        elif not is_known(name):
            yield about.refused("programs", f"is nothing that {TOOL} puts into a bundle")


def is_known(name: str) -> bool:
    """Whether a file of this name, which is no program, may be in a bundle."""
    folder, slash, _ = name.partition("/")
    return folder in FOLDERS and folder != "hostwheel" if slash else name in FILES
