"""Instructions against what the CPU has: ISA001, and against what was planned: ISA002."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from hostwheel.artifact.facts import Artifact, Code, File, Spot
from hostwheel.audit.result import Finding, Standing
from hostwheel.audit.ruling import Ruling, base, question, ruling
from hostwheel.audit.target import Target
from hostwheel.facts import isa
from hostwheel.facts.isa import beyond


def needs_only_what_the_host_has(artifact: Artifact, target: Target) -> Iterator[Finding]:
    """No instruction needs a CPU feature that the host lacks.

    Such an instruction ends the program with SIGILL the first time it is reached, which may be
    hours into a job. It is excused only where that function is proved to run behind a question
    to the CPU: an ifunc or a target_clones sibling, a ggml variant beside a lesser one, or an
    entry with a reason in facts/dispatched.py. A cpuid elsewhere in the file proves nothing:
    then it is not decided, unless a constructor comes straight to it. Take a build for this host,
    or compile with the host's features.
    """
    yield from unread(artifact)
    if target.host is None:
        return
    for file in artifact.files:
        if file.code is None:
            continue
        for feature in beyond(file.code.used, target.features(base(file))):
            yield from findings(artifact, target, file, file.code, feature)


def unread(artifact: Artifact) -> Iterator[Finding]:
    """What no host changes. Beside an x86-64 half, another half of a universal file runs nowhere
    that a host file speaks of: noted."""
    halves = {file.member.name for file in artifact.files if file.code}
    for file in artifact.files:
        if file.code is None:
            beside = file.member.name in halves
            standing: Standing = "noted" if beside else "not covered"
            message = f"{file.native.format} code for {file.native.machine}; only x86-64 is read"
            yield uncovered(
                file.member.name, standing, message, "look at it with a tool for that machine"
            )
    for name in artifact.contents.nested:
        message = "holds an archive, or is one, that may hold native code; it is not looked into"
        yield uncovered(name, "not covered", message, "unpack it and audit it by itself")


def uncovered(name: str, standing: Standing, message: str, remedy: str) -> Finding:
    return Finding(check="ISA001", standing=standing, file=name, message=message, remedy=remedy)


def findings(
    artifact: Artifact, target: Target, file: File, code: Code, feature: str
) -> Iterator[Finding]:
    """One finding for all functions of a file about which the same was decided."""
    decided: defaultdict[Ruling, list[Spot]] = defaultdict(list)
    asked = question(artifact, target, file, code, feature)
    for spot in code.used[feature].spots:
        decided[ruling(asked, spot)].append(spot)
    for ruled, spots in decided.items():
        first, count = spots[0], sum(spot.count for spot in spots)
        yield Finding(
            check="ISA001",
            standing=ruled.standing,
            message=f"{counted(count, 'instruction')} {inside(spots)} "
            f"{'need' if count > 1 else 'needs'} {feature}, {lack(target)}",
            remedy=REMEDIES[ruled.standing],
            file=file.member.name,
            function=first.function,
            address=first.address,
            instruction=first.text,
            feature=feature,
            count=count,
            reason=ruled.reason,
        )


REMEDIES: Mapping[Standing, str] = MappingProxyType(
    {
        "refused": "take a build for this CPU, or compile this file without the feature",
        "undecided": "run it on such a CPU, or under qemu-user's model of it",
        "dismissed": "",
    }
)


def inside(spots: Sequence[Spot]) -> str:
    known = [spot for spot in spots if spot.function is not None]
    return f"in {counted(len(known), 'function')}" if known else "outside any known function"


def counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def lack(target: Target) -> str:
    if target.plan:
        return "which is not planned for this file"
    return f"which {target.name} lacks"


def uses_what_was_planned(artifact: Artifact, target: Target) -> Iterator[Finding]:
    """Each planned instruction set is really used in the CPU backend.

    ggml turns its options off by itself where SOURCE_DATE_EPOCH is set or a compiler for another
    machine is used: the label then says AVX2 and the code is SSE2, correct and many times slower.
    For each option that the plan has ON, the backend holds an instruction that only this option
    brings. Name every GGML_ option in CMake's arguments, ON or OFF, with GGML_NATIVE=OFF.
    """
    if target.plan is None:
        return
    files = {base(file): file for file in artifact.files}
    for name, backend in target.plan.backend_files.items():
        file = files.get(name)
        for option in isa.OPTIONS:
            if option.name in backend.options:
                yield from unproved(name, option, file)


def unproved(name: str, option: isa.Option, file: File | None) -> Iterator[Finding]:
    used = file.code.used if file and file.code else {}
    if file is None or set(option.proof).isdisjoint(used):
        wanted = " or ".join(option.proof)
        yield Finding(
            check="ISA002",
            standing="refused",
            file=file.member.name if file else name,
            feature=option.proof[0],
            message=f"no {wanted} instruction, but {option.name} is ON"
            if file
            else f"{name} is not in here, and {option.name} is planned for it",
            remedy="name every GGML_ option ON or OFF, with GGML_NATIVE=OFF, and build again",
        )
