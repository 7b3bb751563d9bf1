"""One difference between two upstream versions."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """`unplanned`: someone has to decide before this version may be built."""

    area: str
    name: str
    what: str
    unplanned: bool
    diff: tuple[str, ...] = ()


def unified(before: Sequence[str], after: Sequence[str]) -> tuple[str, ...]:
    return tuple(difflib.unified_diff(before, after, "before", "after", lineterm="", n=2))
