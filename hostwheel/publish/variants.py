"""The variant-labelled copy of a wheel, from which an installer that knows variants chooses."""

from dataclasses import dataclass
from pathlib import Path

from hostwheel.publish.catalog import Needs


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """`file` is the copy, `version` what it says it is: not the wheel's own."""

    file: Path
    version: str
    label: str
    properties: tuple[str, ...]


def variant_of(wheel: Path, needs: Needs, folder: Path) -> Variant | None:
    """Write the copy into `folder`. None where no property says what the wheel needs."""
    raise NotImplementedError


def prove_copy(wheel: Path, copy: Path) -> None:
    """Refused unless every member is equal but those of dist-info."""
    raise NotImplementedError
