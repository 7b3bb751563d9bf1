"""What ninja did and how long each step took, from its `.ninja_log`."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

NAME = ".ninja_log"
KINDS: Mapping[str, str] = {
    ".cu.o": "CUDA",
    **dict.fromkeys((".cpp.o", ".cxx.o", ".cc.o"), "C++"),
    ".c.o": "C",
    ".so": "link",
    ".a": "link",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class CompileStep:
    """One command of ninja. Milliseconds count from ninja's start."""

    output: str
    start_ms: int
    end_ms: int

    @property
    def seconds(self) -> float:
        return (self.end_ms - self.start_ms) / 1000

    @property
    def kind(self) -> str:
        path = PurePosixPath(self.output)
        if not path.suffix and path.parent.name == "bin":
            return "link"
        return next((kind for end, kind in KINDS.items() if path.name.endswith(end)), "other")


def read_steps(build: Path, *, since_ns: int = 0) -> tuple[CompileStep, ...]:
    """The last time that each command ran in the build folder, if that was after `since_ns`.

    Lines are `start end mtime output hash`, one for each output of a command. Each run adds lines,
    and its times begin at 0 again; nothing marks where, and ninja now and then rewrites the file
    in another order. But `mtime` is when the command began (before ninja 1.11, when its output
    was written), on the clock of the build folder's disk.
    """
    latest = {step.output: (mtime, command, step) for mtime, command, step in log_lines(build)}
    commands = {command: step for mtime, command, step in latest.values() if mtime >= since_ns}
    return tuple(sorted(commands.values(), key=lambda step: (step.start_ms, step.end_ms)))


def log_lines(build: Path) -> Iterator[tuple[int, str, CompileStep]]:
    """`mtime`, `hash` and the rest of each line. A torn last line, or no log, is no error."""
    log = build / NAME
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) == 5 and all(field.isdecimal() for field in fields[:3]):
            start, end, mtime, output, command = fields
            step = CompileStep(output=output, start_ms=int(start), end_ms=int(end))
            yield int(mtime), command, step


def recorded_steps(evidence: Mapping[str, Any]) -> tuple[CompileStep, ...]:
    """The `compile_steps` of a build.json."""
    return tuple(CompileStep(**step) for step in evidence.get("compile_steps", ()))


def last_costs(build: Path, evidence_file: Path) -> Mapping[str, float]:
    """Seconds by output of what was built before: here, or as build.json remembers it."""
    try:
        remembered = recorded_steps(json.loads(evidence_file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        remembered = ()
    return {step.output: step.seconds for step in (*remembered, *read_steps(build))}
