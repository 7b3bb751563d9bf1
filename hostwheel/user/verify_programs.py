"""The programs in a bundle that no signer vouches for, against those of this hostwheel."""

from collections.abc import Iterator, Mapping

from hostwheel import __version__
from hostwheel.artifact.contents import sha256
from hostwheel.user.bundle_programs import programs
from hostwheel.user.carried.sums import FILES, FOLDERS, SAID
from hostwheel.user.verify_finding import About, Finding

TOOL = f"hostwheel {__version__}"


def program_findings(listed: Mapping[str, str], tool: str) -> Iterator[Finding]:
    """`listed` is the bundle's SHA256SUMS, which its files agree with or are refused for.

    `tool` is what the bundle says that it was made with. Files that hostwheel puts into no bundle
    are refused too: Python looks for modules beside install.py first.
    """
    if tool != TOOL:
        told = (
            f"made with {tool}: that version can compare install.py and hostwheel/, {TOOL} cannot"
        )
        yield About(name=SAID).not_checked("programs", told)
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
