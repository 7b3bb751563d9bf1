"""The few places where CMake files choose processors: what they do, without the rest."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hostwheel.bump.finding import Finding, unified
from hostwheel.bump.listfile import Command
from hostwheel.bump.planned import PLATFORMS


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """The commands of a file whose text matches `says`, where one opener matches `within`."""

    name: str
    file: str
    says: str
    within: str = ""


RULES = (
    Rule(
        name="CUDA architectures",
        file="ggml/src/ggml-cuda/CMakeLists.txt",
        says=r"CUDA_ARCHITECTURES|\bARCHS?\b|FIXED_ARCH",
    ),
    Rule(
        name="flags of nvcc",
        file="ggml/src/ggml-cuda/CMakeLists.txt",
        says=r"\bCUDA_FLAGS\b",
    ),
    Rule(
        name="x86 flags",
        file="ggml/src/ggml-cpu/CMakeLists.txt",
        says=r"ARCH_FLAGS|ARCH_DEFINITIONS|GGML_NATIVE",
        within=r'"x86"|x86',
    ),
    Rule(
        name="x86 variants",
        file="ggml/src/CMakeLists.txt",
        says=r"add_cpu_backend_variant",
        within=r"x86",
    ),
    Rule(
        name="native by default",
        file="ggml/CMakeLists.txt",
        says=r"^set\((GGML_NATIVE_DEFAULT|INS_ENB)\b",
    ),
)


def rule_text(rule: Rule, listed: Iterable[Command]) -> tuple[str, ...]:
    """Its commands and the openers around them, indented. Messages and other platforms left out."""
    lines: list[str] = []
    shown: tuple[str, ...] = ()
    for command in listed:
        if belongs(rule, command):
            common = shared(shown, command.path)
            for depth, opener in enumerate(command.path[common:], common):
                lines.append("  " * depth + opener)
            lines.append("  " * len(command.path) + str(command))
            shown = command.path
    return tuple(lines)


def belongs(rule: Rule, command: Command) -> bool:
    elsewhere = any(re.match(rf"(else)?if\(({PLATFORMS.pattern})\)", one) for one in command.path)
    return (
        command.name != "message"
        and not elsewhere
        and bool(re.search(rule.says, "\n".join((str(command), *command.path))))
        and any(re.search(rule.within, opener) for opener in ("", *command.path))
    )


def shared(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """How many openers both paths begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def rules(files: Mapping[str, tuple[Command, ...]]) -> Mapping[str, tuple[str, ...]]:
    return {rule.name: rule_text(rule, files.get(rule.file, ())) for rule in RULES}


def compare_rules(
    before: Mapping[str, tuple[str, ...]], after: Mapping[str, tuple[str, ...]]
) -> Iterator[Finding]:
    for rule in RULES:
        old, new = before[rule.name], after[rule.name]
        if not new:
            what = "nothing in this file chooses them any more; look where it went"
            yield Finding(area="rule", name=rule.name, what=f"{rule.file}: {what}", unplanned=True)
        elif old != new:
            what = f"{rule.file} was rewritten here"
            diff = unified(old, new)
            yield Finding(area="rule", name=rule.name, what=what, unplanned=True, diff=diff)
