"""Whose key signed, by a file of signers: what ssh-keygen makes of that file counts, line by line.

Asked about a whole file it takes the first line that has the key, be it for another purpose, and
complains of lines before that, blank ones too.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from hostwheel.errors import BadInput, Refused
from hostwheel.plan.files import read_file
from hostwheel.trust.ssh import Answer, Key, Seal, Signers, asked

FAULTY = re.compile(r":\d+: (missing key|invalid key|invalid options|bad options)")  # of a line
OF, NONE = "key of ", "No principal matched"


def signer(key: Key, seal: Seal, signers: Signers) -> str:
    """Who signed, as `signers` knows them; `key` is what `check` gave.

    Refused for a key that is not theirs, or no longer; BadInput as in `principal`.
    """
    if signers.allowed:
        return principal(key, seal, signers.allowed, signers.revoked)
    if key != signers.key:
        raise Refused(f"signed with {key}, expected {signers.key}")
    return "the key that was given"


def principal(key: Key, seal: Seal, allowed: Path, revoked: Path | None) -> str:
    """Who has the key, for this purpose and now. Refused for nobody, or no longer.

    BadInput where ssh-keygen cannot read a line that may be meant, and no other holds.
    """
    complaints: list[str] = []
    with TemporaryDirectory(prefix="hostwheel-signers-") as folder:
        for number, line in lines(allowed):
            alone = Path(folder) / str(number)
            alone.write_bytes(line)
            name, complaint = named(seal, alone)
            if name:
                return not_revoked(name, seal, alone, revoked)
            complaints.append(complaint.replace(f"{alone}:1", f"{allowed}:{number}"))
    raise nobody(key, allowed, complaints)


def lines(allowed: Path) -> Iterator[tuple[int, bytes]]:
    """Those that say something, with their numbers."""
    for number, line in enumerate(read_file(allowed).split(b"\n"), 1):
        if line.strip() and not line.lstrip().startswith(b"#"):
            yield number, line + b"\n"


def named(seal: Seal, alone: Path) -> tuple[str, str]:
    """The name in this line under which the signature holds, or "" and why none does."""
    found = asked(seal, "-Y", "find-principals", "-f", str(alone))
    complaint = found.complaint
    for name in names(found) if found.well else ():
        answer = verified(seal, name, alone)
        if answer.well:
            return name, ""
        complaint = f"{OF}{name}: {answer.complaint}"
    return "", complaint


def names(found: Answer) -> Sequence[str]:
    """A name may have blanks. With "!" are those that a pattern leaves out."""
    written = found.output.decode(errors="replace").replace(",", "\n").splitlines()
    return [each for each in written if not each.startswith("!")]


def verified(seal: Seal, name: str, allowed: Path, *more: str) -> Answer:
    return asked(seal, "-Y", "verify", "-n", seal.namespace, "-I", name, "-f", str(allowed), *more)


def not_revoked(name: str, seal: Seal, alone: Path, revoked: Path | None) -> str:
    """The name. Refused where its key is revoked."""
    if revoked and not verified(seal, name, alone, "-r", str(revoked)).well:
        raise Refused(f"{OF}{name}: revoked in {revoked}")
    return name


def nobody(key: Key, allowed: Path, complaints: Sequence[str]) -> BadInput | Refused:
    """The key is there, for other purposes; or else a line cannot be read; or else neither."""
    if of_key := next((each for each in complaints if each.startswith(OF)), None):
        return Refused(of_key)
    if faulty := next((each for each in complaints if FAULTY.search(each)), None):
        return BadInput(f"{faulty}: mend that line, see ALLOWED SIGNERS in `man ssh-keygen`")
    said = next((each for each in complaints if not each.startswith(NONE)), NONE)
    return Refused(f"{key} is not among {allowed}: {said}")
