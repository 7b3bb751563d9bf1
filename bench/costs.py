"""What it costs to build sets of recipes for a new upstream version, from measured figures.

python bench/costs.py prints the table of docs/scaling.md. Figures are those of bench/build.json;
core hours, so that a price or a machine can be put to them.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostwheel.facts.cuda import TOOLKITS
from hostwheel.plan.command import planned
from hostwheel.plan.data import find_data
from hostwheel.plan.recipe import recipe_names

ROOT = Path(__file__).parents[1]
VERSIONS_A_WEEK = 3
SMOKE_CORES = 2  # of the machine that CONTRIBUTING.md's budget speaks of
HEADINGS = (
    "set of recipes",
    "core h, compiled apart",
    "core h, with the shared cache",
    "core h, smoke tests",
    f"core h a week: cache and tests, {VERSIONS_A_WEEK} versions",
    "GB to publish",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """How many recipes there are, and how many different things are compiled for them.

    `cards` are pairs of a toolkit and a GPU architecture, `sets` are CPU feature sets.
    """

    name: str
    gpu: int
    cpu: int
    cards: int
    sets: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """CPU seconds of builds, and bytes of what they make (wheel and archive)."""

    gpu_cold: float
    cpu_cold: float
    one_card: float
    one_set: float
    gpu_warm: float
    cpu_warm: float
    gpu_bytes: int
    cpu_bytes: int
    smoke: float


def figures() -> Figures:
    builds = json.loads((ROOT / "bench" / "build.json").read_text())
    gpu_warm = build(builds, "a10g", "build folder empty, compiler cache warm; nox")
    cpu_warm = build(builds, "cpu-avx2", "build folders emptied, compiler cache warm")
    return Figures(
        gpu_cold=seconds(build(builds, "a10g", "cold: SCCACHE_DIR empty")),
        cpu_cold=seconds(build(builds, "cpu-avx2", "cold: everything empty")),
        one_card=seconds(build(builds, "a10g", "cold for CUDA, C++ from")),
        one_set=seconds(build(builds, "cpu-avx512", "compiler cache warm from cpu-avx2")),
        gpu_warm=seconds(gpu_warm),
        cpu_warm=seconds(cpu_warm),
        gpu_bytes=size(gpu_warm),
        cpu_bytes=size(cpu_warm),
        smoke=smoke_seconds(),
    )


def build(builds: list[dict[str, Any]], recipe: str, how: str) -> dict[str, Any]:
    """The one build of `recipe` whose description begins with `how`."""
    command = f"hostwheel build {recipe}"
    of_it = (each for each in builds if each["command"] == command)
    (found,) = (each for each in of_it if each["how"].startswith(how))
    return found


def seconds(build: dict[str, Any]) -> float:
    return sum(float(step["cpu"]) for step in build["steps"])


def size(build: dict[str, Any]) -> int:
    return sum(int(artifact["bytes"]) for artifact in build["artifacts"])


def smoke_seconds() -> float:
    """CPU seconds of the smoke tests at most: the minutes of CI's budget on all its cores."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    (minutes,) = re.findall(r"^\| smoke tests of `cpu-avx2`.* \| (\d+) \|$", text, re.MULTILINE)
    return int(minutes) * 60 * SMOKE_CORES


def apart(each: Figures, shape: Shape) -> float:
    """CPU seconds when no job has anything of another."""
    return shape.gpu * each.gpu_cold + shape.cpu * each.cpu_cold


def shared(each: Figures, shape: Shape) -> float:
    """CPU seconds when every object is compiled once: the C++ of all, the GPU code of each card,
    the CPU backend of each feature set; then every recipe is linked and packed."""
    compiled = each.cpu_cold + shape.cards * each.one_card + (shape.sets - 1) * each.one_set
    return compiled + shape.gpu * each.gpu_warm + shape.cpu * each.cpu_warm


def row(each: Figures, shape: Shape) -> tuple[str, ...]:
    smoke = (shape.gpu + shape.cpu) * each.smoke
    week = VERSIONS_A_WEEK * (shared(each, shape) + smoke)
    published = shape.gpu * each.gpu_bytes + shape.cpu * each.cpu_bytes
    spent = (apart(each, shape), shared(each, shape), smoke, week)
    return (shape.name, *(f"{cpu / 3600:.1f}" for cpu in spent), f"{published / 1e9:.1f}")


def this_checkout() -> Shape:
    data = find_data(ROOT / "recipes")
    plans = [planned(name, data) for name in recipe_names(data.recipes)]
    cards = {(plan.cuda.toolkit, plan.cuda.architecture) for plan in plans if plan.cuda}
    gpu = sum(plan.cuda is not None for plan in plans)
    sets = {backend.features for plan in plans for backend in plan.backends}
    name = f"the {len(plans)} of this checkout: {gpu} with a GPU, {len(cards)} kinds of GPU code"
    return Shape(name=name, gpu=gpu, cpu=len(plans) - gpu, cards=len(cards), sets=len(sets))


def hundred() -> Shape:
    """Every card that CUDA 13.0 compiles for, and as many feature sets as ggml has variants."""
    data = find_data(ROOT / "recipes")
    cards = len(TOOLKITS["13.0"].compute)
    sets = len(planned("cpu-any", data).backends)
    name = f"a hundred: 80 with a GPU, {cards} kinds of GPU code, {sets} CPU feature sets"
    return Shape(name=name, gpu=80, cpu=20, cards=cards, sets=sets)


def table() -> Iterator[str]:
    each = figures()
    yield f"| {' | '.join(HEADINGS)} |"
    yield f"| {' | '.join('---' for _ in HEADINGS)} |"
    for shape in (this_checkout(), hundred()):
        yield f"| {' | '.join(row(each, shape))} |"


if __name__ == "__main__":
    print("\n".join(table()))
