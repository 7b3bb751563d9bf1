"""build.json → report.html: where the time of the last build went, in one file without scripts."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path, PurePosixPath
from string import Template
from typing import Any

from hostwheel.build.folders import writing
from hostwheel.build.progress import clock
from hostwheel.build.steps import CompileStep, recorded_steps
from hostwheel.errors import BadInput
from hostwheel.plan.files import read_file

PAGE = Path(__file__).parent / "template" / "report.html"
KINDS = ("CUDA", "C++", "C", "link", "other")  # in this order everywhere
DAMAGED = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
MOST = 20
LANE, GAP, AXIS = 28, 4, 24  # pixels
TICKS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400)  # seconds


def write_report(out: Path) -> Path:
    """Write `report.html` into the `out` folder of a recipe, from the `build.json` there."""
    source, target = out / "build.json", out / "report.html"
    hint = f"build {out.name} first, without --report"
    if not source.exists():
        raise BadInput(f"no {source}: {hint}")
    try:
        text = read_file(source)
    except BadInput as error:
        raise BadInput(f"{error}; {hint}") from None
    try:
        page = report(json.loads(text)).encode()
    except DAMAGED as error:
        wrong = f"{source} is not what hostwheel build writes: {error!r}"
        raise BadInput(f"{wrong}; {hint}") from None
    with writing(out):
        target.write_bytes(page)
    return target


def report(evidence: Mapping[str, Any]) -> str:
    steps = recorded_steps(evidence)
    cache = evidence["compiler_cache"]
    return Template(PAGE.read_text(encoding="utf-8")).substitute(
        recipe=escape(evidence["recipe"]),
        wheel=escape(evidence["plan"]["wheel"]),
        phases=table(("Phase", "Time", "CPU time"), phases(evidence["steps"])),
        cache=f"{cache['compilations']} compilations asked for, {cache['hits']} from the cache",
        chart=chart(steps) if steps else "<p>The last build compiled nothing.</p>",
        kinds=table(("Kind", "Steps", "Time", "Share"), by_kind(steps)),
        files=table(("Step", "Kind", "Seconds", "Share"), dearest(steps)),
    )


def phases(steps: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    for step in steps:
        yield escape(step["name"]), clock(step["wall"]), clock(step["cpu"])


def by_kind(steps: Sequence[CompileStep]) -> Iterator[tuple[str, ...]]:
    counts = Counter(step.kind for step in steps)
    total = sum(step.seconds for step in steps)
    for kind in KINDS:
        seconds = sum(step.seconds for step in steps if step.kind == kind)
        if counts[kind]:
            yield swatch(kind), str(counts[kind]), clock(seconds), share(seconds, total)


def dearest(steps: Sequence[CompileStep]) -> Iterator[tuple[str, ...]]:
    total = sum(step.seconds for step in steps)
    for step in sorted(steps, key=lambda step: -step.seconds)[:MOST]:
        name = f'<span title="{escape(step.output)}">{escape(short(step))}</span>'
        yield name, swatch(step.kind), f"{step.seconds:.1f}", share(step.seconds, total)


def share(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole else ""


def swatch(kind: str) -> str:
    return f'<i class="{css(kind)}"></i>{escape(kind)}'


def css(kind: str) -> str:
    return kind.lower().replace("+", "p")


def short(step: CompileStep) -> str:
    return PurePosixPath(step.output).name.removesuffix(".o")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are HTML already."""
    head = "".join(f"<th scope=col>{cell}</th>" for cell in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>\n" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"


def chart(steps: Sequence[CompileStep]) -> str:
    """The steps over time as SVG: across in percent, so that it fits any screen; down in pixels."""
    end_ms = max(step.end_ms for step in steps) or 1
    placed = list(lanes(steps))
    lane_count = 1 + max(lane for lane, _ in placed)
    bars = "\n".join(bar(step, lane, end_ms) for lane, step in placed)
    label = f"{len(steps)} steps in {clock(end_ms / 1000)}, {lane_count} at once"
    height = AXIS + lane_count * (LANE + GAP)
    return (
        f'<svg role="group" aria-label="{label}" width="100%" height="{height}">\n'
        f"{axis(end_ms, height)}\n{bars}\n</svg>"
    )


def lanes(steps: Sequence[CompileStep]) -> Iterator[tuple[int, CompileStep]]:
    """Each step in the first lane that is free when it begins."""
    free_from: list[int] = []
    for step in sorted(steps, key=lambda step: (step.start_ms, step.end_ms)):
        free = (lane for lane, when in enumerate(free_from) if when <= step.start_ms)
        lane = next(free, len(free_from))
        free_from[lane : lane + 1] = [step.end_ms]
        yield lane, step


def bar(step: CompileStep, lane: int, end_ms: int) -> str:
    said = f"{short(step)}: {step.seconds:.1f} s, {step.kind}, at {clock(step.start_ms / 1000)}"
    x, width = 100 * step.start_ms / end_ms, 100 * (step.end_ms - step.start_ms) / end_ms
    return (
        f'<g tabindex="0" role="img" aria-label="{escape(said)}"><title>{escape(said)}</title>'
        f'<rect class="{css(step.kind)}" x="{x:.3f}%" y="{AXIS + lane * (LANE + GAP)}" '
        f'width="{width:.3f}%" height="{LANE}"/>'
        f'<text class="said" y="13">{escape(said)}</text></g>'
    )


def axis(end_ms: int, height: int) -> str:
    """A line and its time at each round number of seconds, five at most."""
    every = next((every for every in TICKS if end_ms <= 5000 * every), end_ms // 1000)
    return "".join(
        f'<line x1="{x:.3f}%" x2="{x:.3f}%" y1="{AXIS - 4}" y2="{height}"/>'
        f'<text class="tick" x="{x:.3f}%" y="13">{clock(second)}</text>'
        for second in range(0, end_ms // 1000 + 1, every)
        if (x := 100_000 * second / end_ms) < 95
    )
