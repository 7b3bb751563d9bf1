"""What a new upstream version brings, for people. What needs a decision is marked with !"""

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from hostwheel.bump.bump import Bump
from hostwheel.bump.finding import Finding

AREAS = {
    "define": "Planned options",
    "option": "Options",
    "rule": "Rules of architectures and flags",
    "target": "Targets",
    "link": "Libraries linked",
    "symbol": "C functions and the Python package",
    "driver": "Functions of libcuda",
}
STYLES = {"+": "green", "-": "red", "@": "cyan"}


def show_bump(bump: Bump, console: Console) -> None:
    console.print(Text(f"llama-cpp-python {bump.base} → {bump.version}", style="bold"))
    commit = bump.dated.commit or "unknown: the archive has no .git of it"
    console.print(Text(f"llama.cpp commit {commit}"))
    console.print(Text(f"epoch {bump.dated.epoch} (of {bump.dated.source})"))
    show_patches(bump, console)
    kept = sum(state != "gone" for state in bump.defines.values())
    console.print(Text(f"\n{kept} of {len(bump.defines)} planned options are still read"))
    for area, title in AREAS.items():
        found = [finding for finding in bump.findings if finding.area == area]
        if found:
            console.print(Text(f"\n{title}", style="bold"))
        for names, finding in grouped(found):
            show_finding(names, finding, console)
    console.print(Text(f"\n{verdict(bump)}", style="bold"))


def show_patches(bump: Bump, console: Console) -> None:
    console.print(Text("\nPatches", style="bold"))
    for name, said in bump.patches.items():
        console.print(marked(bool(said), f"{name} {'does not apply' if said else 'applies'}"))
        for line in said:
            console.print(Text(f"      {line}"))
    for name in bump.other:
        console.print(marked(False, f"{name} is not for this version"))


def grouped(findings: Iterable[Finding]) -> Iterable[tuple[str, Finding]]:
    """Findings that say the same are one, with all their names; those to decide on come first."""
    alike: dict[tuple[bool, str], list[Finding]] = {}
    for finding in sorted(findings, key=lambda one: not one.unplanned):
        alike.setdefault((finding.unplanned, finding.what), []).append(finding)
    for group in alike.values():
        yield ", ".join(finding.name for finding in group), group[0]


def show_finding(names: str, finding: Finding, console: Console) -> None:
    console.print(marked(finding.unplanned, f"{names}: {finding.what}"))
    for line in finding.diff:
        console.print(Text(f"      {line}", style=STYLES.get(line[0], "")))


def marked(unplanned: bool, line: str) -> Text:
    return Text(f"  {'!' if unplanned else ' '} {line}", style="yellow" if unplanned else "")


def verdict(bump: Bump) -> str:
    if not bump.unplanned:
        return "Nothing unplanned changed."
    return f"{bump.unplanned} unplanned (marked with !): settle each in patches or plan first"
