"""Code that asks the CPU before it uses a feature, function by function, each with its reason.

A `cpuid` somewhere in a file excuses nothing; an entry here names the functions that are guarded.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Dispatched:
    """`functions` is a pattern searched for in the (mangled) name."""

    file: str
    feature: str
    functions: str
    reason: str


DISPATCHED: tuple[Dispatched, ...] = (
    Dispatched(
        file="libmtmd.so",
        feature="abm",
        functions=r"ma_dr_flac__",
        reason="miniaudio's FLAC decoder branches on ma_dr_flac__gIsLZCNTSupported, which it"
        " sets from CPUID, before each lzcnt",
    ),
)


def is_dispatched(file: str, feature: str, functions: Iterable[str]) -> bool:
    """Whether every one of `functions` in `file` is known to be guarded for `feature`."""
    known = [
        entry.functions for entry in DISPATCHED if (entry.file, entry.feature) == (file, feature)
    ]
    names = tuple(functions)  # none known is no evidence
    return bool(names) and all(any(re.search(each, name) for each in known) for name in names)
