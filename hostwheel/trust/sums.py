"""SHA256SUMS, as `sha256sum -c` reads it."""

import re
from collections.abc import Mapping

from hostwheel.errors import Refused

SUMS = "SHA256SUMS"
SIGNATURE = "SHA256SUMS.sig"
LINE = re.compile(r"(?P<sha256>[0-9a-f]{64})  (?P<name>[^\\/\x00-\x1f][^\\\x00-\x1f]*)")


def sums(hashes: Mapping[str, str]) -> bytes:
    """`hashes` is file name → sha256."""
    return "".join(f"{hashes[name]}  {name}\n" for name in sorted(hashes)).encode()


def read_sums(text: bytes) -> Mapping[str, str]:
    """File name → sha256. Refused for a line of another form, and for a name that comes twice."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.decode(errors="replace").splitlines(), 1):
        match = LINE.fullmatch(line)
        if match is None or match["name"] in found:
            wrong = (
                "has another form than `sha256sum` writes" if match is None else "is there twice"
            )
            raise Refused(f"line {number} {wrong}: {line:.100}")
        found[match["name"]] = match["sha256"]
    return found
