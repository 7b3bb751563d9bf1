"""What is built and what is linked to it, as far as our builds reach it."""

import re
from collections.abc import Iterator, Mapping

from hostwheel.bump.finding import Finding
from hostwheel.bump.listfile import Command
from hostwheel.bump.planned import Planned

# Folders of llama.cpp that our builds go through, those of vendor/ apart.
AREAS = (
    *(".", "ggml", "ggml/src", "ggml/src/ggml-cpu", "ggml/src/ggml-cuda", "src", "common"),
    *("vendor", "tools", "tools/server", "tools/mtmd", "tools/ui"),
    *("tools/llama-bench", "tools/quantize", "tools/tokenize"),
)
MAKES = ("add_library", "add_executable", "ggml_add_backend_library")
VARIANT = "ggml_add_cpu_backend_variant"  # one of the CPU backends that ggml chooses from
KINDS = ("STATIC", "OBJECT", "INTERFACE", "ALIAS", "IMPORTED")
ALIAS = "alias library"
KEYWORDS = ("PRIVATE", "PUBLIC", "INTERFACE", "REQUIRED", "QUIET", "NAMES")
# glibc's, which every program needs anyway.
HARMLESS = ("dl", "m", "pthread", "Threads", "Threads::Threads")
HARMLESS_VARIABLES = ("${CMAKE_THREAD_LIBS_INIT}", "${CMAKE_DL_LIBS}", "${MATH_LIBRARY}")


def resolved(listed: tuple[Command, ...], planned: Planned) -> Iterator[Command]:
    """The commands that our builds reach, with what set(NAME one) said put in for ${NAME}."""
    values: dict[str, str] = {}
    for command in listed:
        args = tuple(
            re.sub(r"\$\{(\w+)\}", lambda match: values.get(match[1], match[0]), argument)
            for argument in command.args
        )
        if planned.unbuilt(command.path):
            continue
        if command.name == "set" and len(args) == 2 and args[0] != args[1].strip("${}"):
            values[args[0]] = args[1]
        yield Command(name=command.name, args=args, path=command.path)


def targets(listed: Mapping[str, tuple[Command, ...]], planned: Planned) -> Mapping[str, str]:
    """name → "shared library", "static library", …, "executable"."""
    found = {}
    for commands in listed.values():
        for command in resolved(commands, planned):
            if command.name in MAKES and not command.value(0).startswith("${"):
                found[command.value(0)] = kind(command)
            elif command.name == VARIANT:
                found[f"ggml-cpu-{command.value(0)}"] = "shared library"
    return dict(sorted(found.items()))


def kind(command: Command) -> str:
    if command.name == "add_executable":
        return "executable"
    given = next((one for one in command.args[1:3] if one in KINDS), "SHARED")
    return f"{given.lower()} library"


def links(
    listed: Mapping[str, tuple[Command, ...]], planned: Planned
) -> frozenset[tuple[str, str]]:
    """Pairs (target, what it links), ("find_package", package), ("find_library", name)."""
    found = set[tuple[str, str]]()
    for commands in listed.values():
        for command in resolved(commands, planned):
            if command.name == "target_link_libraries":
                found.update((command.value(0), one.strip('"')) for one in command.args[1:])
            elif command.name in ("find_package", "find_library"):
                found.add((command.name, wanted(command)))
    return frozenset(pair for pair in found if pair[1] not in KEYWORDS)


def wanted(command: Command) -> str:
    """The package of find_package(package …), the library of find_library(VARIABLE library …)."""
    names = command.args[1:] if command.name == "find_library" else command.args
    return next((name for name in names if name not in KEYWORDS), "")


def compare_targets(
    before: Mapping[str, str], after: Mapping[str, str], planned: Planned
) -> Iterator[Finding]:
    """A new shared library has to be shipped or switched off; what we ship has to be there."""
    for name in sorted({*before, *after, *planned.shipped}):
        old, new = before.get(name), after.get(name)
        shipped = name in planned.shipped
        if ALIAS in (old, new):
            continue
        if new is None:
            what = f"no such target any more (was: {old or 'not there either'})"
            yield Finding(area="target", name=name, what=what, unplanned=shipped)
        elif old != new:
            what = f"new: {new}" if old is None else f"{old} → {new}"
            unplanned = new == "shared library" and not shipped
            yield Finding(area="target", name=name, what=what, unplanned=unplanned)


def compare_links(
    before: frozenset[tuple[str, str]],
    after: frozenset[tuple[str, str]],
    after_targets: Mapping[str, str],
) -> Iterator[Finding]:
    """What comes from outside llama.cpp may end up in NEEDED."""
    for target, library in sorted(after - before):
        inside = library in after_targets or library in HARMLESS or library in HARMLESS_VARIABLES
        what = f"now {'links' if '_' not in target else 'asks for'} {library}"
        yield Finding(area="link", name=target, what=what, unplanned=not inside)
    for target, library in sorted(before - after):
        what = f"no longer {'links' if '_' not in target else 'asks for'} {library}"
        yield Finding(area="link", name=target, what=what, unplanned=False)
