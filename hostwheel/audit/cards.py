"""Findings as HTML: one card for each check, file and remedy; the rest of a long one folded."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from hostwheel.audit.demangle import demangled
from hostwheel.audit.markup import file_name, folded, several, shown
from hostwheel.audit.result import Finding, Report

MOST_CARDS, MOST_ITEMS = 8, 4

# What is no refusal, the weightier first.
LAID_ASIDE: Mapping[str, str] = MappingProxyType(
    {
        "undecided": "not decided here: the smoke test decides",
        "not covered": "not covered: this audit cannot read it",
        "noted": "noted: worth mending, no reason to refuse",
        "dismissed": "dismissed: looked at and found harmless, each with its reason",
    }
)
OPEN_QUESTIONS = ("undecided", "not covered")


def findings(report: Report) -> str:
    refused = of(report, "refused")
    first = cards(refused) if refused else "<p>Nothing was refused.</p>"
    return "\n".join((first, *laid_aside(report, bool(refused))))


def laid_aside(report: Report, refused: bool) -> Iterator[str]:
    """What is no refusal, folded; open questions unfold where nothing was refused."""
    for standing, meaning in LAID_ASIDE.items():
        chosen = of(report, standing)
        opened = " open" if standing in OPEN_QUESTIONS and not refused and len(chosen) < 20 else ""
        if chosen:
            attributes = f' class="aside {css(standing)}"{opened}'
            summary = f"<b>{len(chosen):,}</b> {meaning}"
            yield folded(summary, cards(chosen), attributes=attributes)


def of(report: Report, standing: str) -> tuple[Finding, ...]:
    return tuple(finding for finding in report.findings if finding.standing == standing)


def cards(found: Iterable[Finding]) -> str:
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in found:
        key = (finding.check, finding.file or "", finding.remedy)
        groups.setdefault(key, []).append(finding)
    said: dict[tuple[Finding, ...], list[str]] = {}
    for (_, name, _), group in groups.items():
        same = tuple(dataclasses.replace(finding, file=None) for finding in group)
        said.setdefault(same, []).append(name)
    made = [card(group, names) for group, names in said.items()]
    return "\n".join(cut(made, MOST_CARDS, "more, by check and file"))


def cut(made: Sequence[str], most: int, what: str) -> Iterator[str]:
    """The first `most`, then all others folded; a fold of one would be longer than the one."""
    head = most if len(made) > most + 1 else len(made)
    yield from made[:head]
    if made[head:]:
        yield folded(f"{len(made) - head:,} {what}", "\n".join(made[head:]))


def card(group: Sequence[Finding], names: Sequence[str]) -> str:
    """`names` are the files of which the same is said: copies."""
    first = group[0]
    where = "<br>".join(map(file_name, names)) if names[0] else "<span>the whole artifact</span>"
    items = "\n".join(cut([item(finding) for finding in group], MOST_ITEMS, "more of this file"))
    remedy = f'<p class="do"><b>What to do</b> {shown(first.remedy)}</p>' if first.remedy else ""
    return (
        f'<article class="card {css(first.standing)}">\n'
        f'<h3><b class="id">{shown(first.check)}</b> {where}</h3>\n{items}\n{remedy}</article>'
    )


def item(finding: Finding) -> str:
    return "".join(
        (
            f'<div class="item"><p>{shown(finding.message)}{feature(finding)}</p>',
            function(finding.function) if finding.function else "",
            assembly(finding) if finding.instruction or finding.address is not None else "",
            f'<p class="why">{shown(finding.reason)}</p>' if finding.reason else "",
            "</div>",
        )
    )


def feature(finding: Finding) -> str:
    if not finding.feature:
        return ""
    times = f" &times; {finding.count:,}" if finding.count > 1 else ""
    spoken = several(finding.count, "instruction") if finding.count else "used"
    return f' <span class="chip" title="{spoken}">{shown(finding.feature)}{times}</span>'


def function(name: str) -> str:
    readable = f"<i>in</i> <code>{shown(demangled(name))}</code>"
    return f'<p class="function" title="{shown(name)}">{readable}</p>'


def assembly(finding: Finding) -> str:
    address = "" if finding.address is None else f"<span>{finding.address:#x}</span>"
    return f"<pre>{address}{shown(finding.instruction or '')}</pre>"


def css(standing: str) -> str:
    return standing.replace(" ", "-")
