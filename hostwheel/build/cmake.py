"""What CMake really did, held against the plan: PLAN001 and PLAN002."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostwheel.errors import Refused
from hostwheel.plan.plan import Plan

CACHE_LINE = re.compile(r"^([^#/:=][^:=]*):([A-Z]+)=(.*)$")
UNUSED = re.compile(
    r"Manually-specified variables were not used by the project:\s*\n((?:.*\n)*?)\s*\n\s*\n"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Configured:
    """A configured build folder: the cache, the compile commands, and what CMake said."""

    cache: Mapping[str, str]
    commands: tuple[Mapping[str, Any], ...]
    said: str


def read_configured(folder: Path, said: str) -> Configured:
    return Configured(
        cache=read_cache(folder / "CMakeCache.txt"),
        commands=tuple(json.loads((folder / "compile_commands.json").read_text())),
        said=said,
    )


def read_cache(file: Path) -> Mapping[str, str]:
    matches = (CACHE_LINE.match(line) for line in file.read_text().splitlines())
    return {match[1]: match[3] for match in matches if match}


def plan001(plan: Plan, configured: Configured) -> Iterator[str]:
    """CMake consumed every planned define: none unused, each in the cache at the planned value.

    An unknown `-D` is only a warning for CMake, so a slip would give a CPU build in silence.
    """
    for name in unused_variables(configured.said):
        yield f"{name} is planned, but nothing in the project's CMake files reads it"
    for name, value in plan.defines.items():
        found = configured.cache.get(name)
        if found != value:
            yield f"{name} is planned as {value!r}, but CMake's cache has {found!r}"


def unused_variables(said: str) -> tuple[str, ...]:
    return tuple(name for block in UNUSED.findall(said + "\n\n\n") for name in block.split())


def plan002(plan: Plan, configured: Configured) -> Iterator[str]:
    """No compile command selects instructions that the plan does not: no native, no stray -m."""
    for command in configured.commands:
        argv = shlex.split(command["command"])
        planned = planned_flags(plan, command["command"])
        for flag in machine_flags(argv):
            if flag not in planned:
                yield f"{flag} is not planned for {command['file']}"


def planned_flags(plan: Plan, command: str) -> tuple[str, ...]:
    """The `-m…` options of the CPU backend that `command` compiles a file of, if of any."""
    for backend in plan.backends:
        if f"CMakeFiles/{backend.name}.dir/" in command:
            return backend.flags
    return ()


def machine_flags(argv: list[str]) -> Iterator[str]:
    """The `-m…` options for the host compiler, those handed through nvcc included."""
    for argument in argv:
        handed_on = re.sub(r"^(-Xcompiler|--compiler-options)=", "", argument)
        for part in re.split(r"[,\s]+", handed_on):
            if re.match(r"-m[a-z]", part):
                yield part


def check_configured(plan: Plan, configured: Configured) -> None:
    """Raise Refused with everything that PLAN001 and PLAN002 found."""
    problems = [
        *(f"PLAN001: {problem}" for problem in plan001(plan, configured)),
        *(f"PLAN002: {problem}" for problem in plan002(plan, configured)),
    ]
    if problems:
        raise Refused("the build is not the planned one:\n  " + "\n  ".join(problems))
