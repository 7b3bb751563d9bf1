"""A report for people: the verdict first, then why, then which hosts it fits."""

from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hostwheel.audit.result import Finding, Report, Standing, Verdict
from hostwheel.audit.visible import visible

STYLES: dict[str, str] = {
    "fits": "green",
    "unfit": "red",
    "undecided": "yellow",
    "refused": "red",
    "not covered": "yellow",
    "noted": "cyan",
    "dismissed": "dim",
}
SECTIONS: tuple[tuple[Standing, str], ...] = (
    ("refused", "Refused"),
    ("undecided", "Not decided here: needs the smoke test"),
    ("not covered", "Not covered"),
    ("noted", "Worth mending"),
)
VERDICTS: dict[Verdict, str] = {
    "fits": "fits",
    "unfit": "does not fit",
    "undecided": "is not decided for",
}
SHOWN_REASONS = 3


def show_report(report: Report, console: Console) -> None:
    console.print(headline(report))
    if report.floor:
        console.print(Text(f"driver {report.floor.driver} or newer: {report.floor.reason}"))
    for standing, title in SECTIONS:
        show_section(title, standing, report.findings, console)
    show_dismissed(report.findings, console)
    if report.fits:
        show_fits(report, console)


def headline(report: Report) -> Text:
    artifact = visible(report.artifact)
    if report.verdict is None:
        read = sum(each.instructions or 0 for each in report.files)
        return Text(f"{artifact}: {len(report.files)} native files, {read:,} instructions")
    said = f"{artifact} {VERDICTS[report.verdict]} {report.target}"
    return Text(said, style=f"bold {STYLES[report.verdict]}")


def show_section(
    title: str, standing: Standing, found: Iterable[Finding], console: Console
) -> None:
    chosen = [finding for finding in found if finding.standing == standing]
    if chosen:
        console.print(Text(f"\n{title}", style=f"bold {STYLES[standing]}"))
    for names, text in alike(chosen):
        console.print(Text(f"  {names}", style="bold"))
        console.print(Text(text))


def alike(found: Iterable[Finding]) -> Iterator[tuple[str, str]]:
    """(files of which the same is said, what is said of them)."""
    groups: dict[str, list[Finding]] = {}
    for finding in found:
        groups.setdefault(visible(finding.file or "the artifact itself"), []).append(finding)
    said: dict[str, list[str]] = {}
    for name, group in groups.items():
        said.setdefault("\n".join(lines(group)), []).append(name)
    for text, names in said.items():
        yield "\n  ".join(names), text


def lines(group: Iterable[Finding]) -> Iterator[str]:
    """Each finding, and what several in a row have in common once."""
    common: tuple[str | None, str] | None = None
    for finding in group:
        if common not in (None, (finding.reason, finding.remedy)):
            yield from advice(common)
        common = (finding.reason, finding.remedy)
        yield f"    {finding.check} {visible(finding.message)}"
        if finding.instruction:
            yield f"        {visible(f'{where(finding)}: {finding.instruction}')}"
    yield from advice(common)


def advice(common: tuple[str | None, str] | None) -> Iterator[str]:
    reason, remedy = common or (None, "")
    if reason:
        yield f"      because: {visible(reason)}"
    if remedy:
        yield f"      → {visible(remedy)}"


def where(finding: Finding) -> str:
    function = finding.function or "no known function"
    return f"first in {function} at {finding.address:#x}"


def show_dismissed(found: Iterable[Finding], console: Console) -> None:
    """In short: one line for each file and reason."""
    alike: dict[tuple[str, str], set[str]] = {}
    for finding in found:
        if finding.standing == "dismissed":
            key = (visible(finding.file or ""), visible(finding.reason or finding.message))
            alike.setdefault(key, set()).add(visible(finding.feature or finding.message))
    if alike:
        console.print(Text("\nLooked at and found harmless", style="bold"))
    for (file, reason), features in alike.items():
        console.print(Text(f"  {file}: {' '.join(sorted(features))}\n      because: {reason}"))


def show_fits(report: Report, console: Console) -> None:
    """Without the blanks that fill a table's rows up to the longest."""
    with console.capture() as captured:
        console.print(fit_table(report))
    for line in captured.get().splitlines():
        console.print(Text.from_ansi(line.rstrip()), soft_wrap=True)


def fit_table(report: Report) -> Table:
    made = Table(
        title="\nKnown hosts", title_justify="left", title_style="bold", box=None, pad_edge=False
    )
    for heading in ("host", "fits", "why"):
        made.add_column(heading, overflow="fold", no_wrap=heading != "why")
    for fit in report.fits:
        said = {"fits": "yes", "unfit": "no", "undecided": "?"}[fit.verdict]
        shown = fit.reasons[:SHOWN_REASONS]
        more = len(fit.reasons) - len(shown)
        why = "; ".join((*shown, *((f"and {more} more",) if more else ())))
        made.add_row(
            Text(visible(fit.host)), Text(said, style=STYLES[fit.verdict]), Text(visible(why))
        )
    return made
