"""Libraries of which there is one for each instruction set, told by their names."""

import re
from collections.abc import Iterable

TOKEN = re.compile(
    r"[-_.]?(?<![a-z])(sse\d?(?:[._]?\d)?|avx\d*(?:[-_]?(?:skx|vnni|core|mic))?|avx512[a-z]*|fma"
    r"|x86[-_]64[-_]v[234]|haswell|skylakex?|zen\d?|icelake|sandybridge|nehalem|generic|default|def"
    r"|baseline|scalar)(?![a-z])"
)


def isa_relatives(name: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names that differ from this one by the instruction set in them only."""
    stem = TOKEN.sub("", name.lower())
    if stem == name.lower():
        return ()
    others = sorted({other for other in names if other != name})
    return tuple(other for other in others if TOKEN.sub("", other.lower()) == stem)
