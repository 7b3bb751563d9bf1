"""A captured machine as a host file, or as JSON. Standard library only, Python 3.8 and newer."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from hostwheel.user.capture_limits import Limits
from hostwheel.user.capture_machine import Machine

# What a host file says where there is no such library: older than anything asks for.
NO_GLIBC, NO_GLIBCXX = "2.0", "3.4.0"

# The x86-64 psABI's levels, in archspec's names: what each adds to the one before.
LEVELS = (
    ("x86_64_v2", "cx16 lahf_lm popcnt sse3 sse4_1 sse4_2 ssse3"),
    ("x86_64_v3", "abm avx avx2 bmi1 bmi2 f16c fma movbe xsave"),
    ("x86_64_v4", "avx512bw avx512cd avx512dq avx512f avx512vl"),
)


def host_file(machine: Machine, name: str) -> str:
    """TOML as recipes/hosts/ has it. What such a file has no place for is in comments."""
    return "\n".join(host_lines(machine, name)) + "\n"


def host_lines(machine: Machine, name: str) -> Iterator[str]:
    for note in notes(machine):
        yield "# " + printable(note)
    yield f"title = {quoted(title(machine, name))}"
    yield ""
    yield "[cpu]"
    yield f"microarchitecture = {quoted(level(machine))}  # only the level that the features reach"
    yield "features = ["
    listed = ", ".join(map(quoted, machine.features)) + ","
    yield textwrap.fill(listed, 100, initial_indent="    ", subsequent_indent="    ")
    yield "]"
    yield ""
    if machine.graphics.gpus and machine.graphics.driver:
        yield "[gpu]"
        yield f"name = {quoted(machine.graphics.gpus[0].name)}"
        yield f"compute = {quoted(machine.graphics.gpus[0].compute)}"
        yield f"driver = {quoted(machine.graphics.driver)}"
        yield ""
    yield "[os]"
    yield f"glibc = {quoted(machine.glibc or NO_GLIBC)}"
    yield f"glibcxx = {quoted(machine.glibcxx or NO_GLIBCXX)}"


def notes(machine: Machine) -> Iterator[str]:
    yield "Captured on the machine itself: the CPU by CPUID, what a hypervisor masks is absent."
    yield f"Python {machine.python}; {', '.join(limit_words(machine.limits))}"
    graphics = machine.graphics
    for gpu in graphics.gpus:
        yield f"GPU: {gpu.name}, compute capability {gpu.compute}, {gib(gpu.memory)}"
    if len({gpu.compute for gpu in graphics.gpus}) > 1:
        yield "These GPUs differ; [gpu] is the first. Make a host file of each that will be used."
    if not graphics.gpus:
        driver = f"driver {graphics.driver}, " if graphics.driver else ""
        yield f"No NVIDIA GPU: {driver}{graphics.problem}"
    if machine.glibc is None:
        yield "The C library is not glibc: no manylinux wheel runs here."
    if machine.glibcxx is None:
        yield "libstdc++.so.6 is not installed: apt-get install libstdc++6"


def limit_words(limits: Limits) -> Iterator[str]:
    yield f"{limits.cpus} CPUs"
    if limits.quota is not None:
        yield f"of which a cgroup allows {limits.quota:g}"
    if limits.memory is not None:
        yield f"{gib(limits.memory)} of memory"
    if limits.memory_limit is not None:
        yield f"of which a cgroup allows {gib(limits.memory_limit)}"


def title(machine: Machine, name: str) -> str:
    parts = [*(gpu.name for gpu in machine.graphics.gpus[:1]), machine.brand]
    return (f"{name}: " if name else "") + ", ".join(parts)


def level(machine: Machine) -> str:
    """The highest psABI level whose features, and those of the levels below, are all there."""
    reached, needed = "x86_64", set()
    for name, adds in LEVELS:
        needed |= set(adds.split())
        if needed <= set(machine.features):
            reached = name
    return reached


def gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"


def quoted(text: str) -> str:
    """A basic string of TOML, which of one printable line is JSON's."""
    return json.dumps(printable(text), ensure_ascii=False)


def printable(text: str) -> str:
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def as_json(machine: Machine, name: str) -> str:
    told: dict[str, Any] = {"schema": 1, "name": name, "level": level(machine), **asdict(machine)}
    return json.dumps(told, indent=1)
