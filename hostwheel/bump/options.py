"""CMake options of ggml and llama.cpp, with their defaults as written."""

import re
from collections.abc import Iterable, Iterator, Mapping

from hostwheel.bump.finding import Finding
from hostwheel.bump.listfile import Command
from hostwheel.bump.planned import Planned

NAME = re.compile(r"(GGML|LLAMA|MTMD)_[A-Z0-9_]+|BUILD_SHARED_LIBS")
DECLARED = ("option", "cmake_dependent_option")


def options(listed: Iterable[Command]) -> Mapping[str, str]:
    """name → default. One that is declared in several places has them all, in order, with "|"."""
    found: dict[str, list[str]] = {}
    for command in listed:
        default = declared(command)
        if default is not None and NAME.fullmatch(command.value(0)):
            seen = found.setdefault(command.value(0), [])
            if default not in seen:
                seen.append(default)
    return {name: " | ".join(defaults) for name, defaults in sorted(found.items())}


def declared(command: Command) -> str | None:
    """The default of option(name "what" default) or set(name default… CACHE …), else None.

    CACHE INTERNAL is a result, not a choice.
    """
    if command.name in DECLARED:
        return " ".join(command.args[2:]) or "OFF"
    if command.name == "set" and "CACHE" in command.args:
        place = command.args.index("CACHE")
        if command.value(place + 1) != "INTERNAL":
            return " ".join(argument.strip('"') for argument in command.args[1:place])
    return None


def compare_options(
    before: Mapping[str, str],
    after: Mapping[str, str],
    planned: Planned,
    defines: Mapping[str, str],
) -> Iterator[Finding]:
    """A planned option must stay one; one that is new or whose default changed must be planned.

    Those that are gone altogether are left to `compare_defines`.
    """
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if old == new or defines.get(name) == "gone":
            continue
        is_planned, inert = name in planned.defines, planned.inert(name)
        if old is None:
            what, unplanned = f"new, default {new!r}", not (is_planned or inert)
        elif new is None:
            what, unplanned = f"no longer an option (was {old!r})", is_planned
        else:
            what = f"default {old!r} → {new!r}"
            unplanned = not (is_planned or inert)
        yield Finding(area="option", name=name, what=what + note(is_planned), unplanned=unplanned)


def note(is_planned: bool) -> str:
    return "; the plan names it" if is_planned else ""


def compare_defines(found: Mapping[str, str]) -> Iterator[Finding]:
    for name, state in found.items():
        if state == "gone":
            what = "planned, but no CMake file of this version reads it"
            yield Finding(area="define", name=name, what=what, unplanned=True)
