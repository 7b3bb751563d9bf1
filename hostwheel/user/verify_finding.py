"""What verifying found, one thing after the other."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from hostwheel.errors import Refused

Outcome = Literal["checked", "not checked", "refused"]
Check = Literal[
    "catalog",  # the bucket's own lists agree with each other and with the evidence
    "index",  # the pages that pip, uv and people read follow from the catalog
    "sums",  # SHA256SUMS agrees with the files
    "signature",  # it holds, for these bytes and this purpose
    "signer",  # whose key it is
    "statement",  # is there, and can be read
    "subject",  # it is of exactly this file
    "evidence",  # is what the statement, or the catalog, names
    "sbom",  # is the one that the statement names
    "programs",  # those of a bundle are as hostwheel writes them
    "record",  # the files in a wheel are those of its RECORD
]
Read: TypeAlias = Callable[[str], bytes | None]
"""Gives the bytes under a name; None where there is nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """`about` is the file that it is of; `message` says it without that name."""

    check: Check
    outcome: Outcome
    about: str
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class About:
    """Makes the findings of one file."""

    name: str

    def checked(self, check: Check, message: str) -> Finding:
        return Finding(check=check, outcome="checked", about=self.name, message=message)

    def not_checked(self, check: Check, message: str) -> Finding:
        return Finding(check=check, outcome="not checked", about=self.name, message=message)

    def refused(self, check: Check, message: str) -> Finding:
        return Finding(check=check, outcome="refused", about=self.name, message=message)

    def held(self, check: Check, message: str, holds: Callable[[], object]) -> Iterator[Finding]:
        """Checked, unless `holds` raises Refused."""
        try:
            holds()
            yield self.checked(check, message)
        except Refused as error:
            yield self.refused(check, str(error))
