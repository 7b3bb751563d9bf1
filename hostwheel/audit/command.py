"""`hostwheel audit`: arguments in, text, JSON and pages out."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from hostwheel.artifact.native import Progress as Advance
from hostwheel.artifact.native import no_progress
from hostwheel.audit.audit import AUDITOR, audit
from hostwheel.audit.checks import CHECKS, find_check
from hostwheel.audit.machine import this_machine
from hostwheel.audit.page import write_page
from hostwheel.audit.planfile import read_plan
from hostwheel.audit.result import Report
from hostwheel.audit.show import show_report
from hostwheel.audit.target import Target, find_host, known_hosts, of_plan
from hostwheel.audit.visible import visible
from hostwheel.errors import BadInput, HostwheelError, MachineLacks
from hostwheel.facts.host import Host
from hostwheel.plan.command import add_folder
from hostwheel.plan.data import find_data
from hostwheel.plan.plan import plain
from hostwheel.plan.show import people


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_folder(parser)
    what = "wheel, tar or zip archive, folder or native file"
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE", help=what)
    target = parser.add_mutually_exclusive_group()
    target.add_argument("--host", metavar="NAME", help="a known host, or a host's TOML file")
    plan_help = "what it was built by: from `hostwheel plan --json`, or a build.json"
    target.add_argument("--plan", type=Path, metavar="FILE", help=plan_help)
    target.add_argument("--this-machine", action="store_true", help="the machine it runs on")
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page about the one FILE")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write audit.json and audit.html")
    symbols_help = "saved function names; default: symbols/ beside the file's folder"
    parser.add_argument("--symbols", type=Path, metavar="DIR", help=symbols_help)
    known = ", ".join(check.id for check in CHECKS)
    parser.add_argument("--explain", metavar="ID", help=f"say what a check is for: {known}")
    parser.set_defaults(run=run_audit)


def run_audit(arguments: argparse.Namespace) -> int:
    """0: fits, is not decided for a host, or no host was named; 1: refused; 2: not read."""
    if arguments.explain:
        check = find_check(arguments.explain)
        print(f"{check.id}: {check.title}\n\n{check.reason}")
        return 0
    check_files(arguments)
    hosts = known_hosts(find_data(arguments.recipes).recipes)
    target = find_target(arguments, hosts)
    reports, errors = audit_all(arguments, target, hosts)
    if reports:
        tell(reports, arguments)
    for error in errors:
        print(f"hostwheel: {visible(str(error))}", file=sys.stderr)
    refusals = (1 for report in reports if refused(report))
    return max((*refusals, *(error.exit_code for error in errors)), default=0)


def audit_all(
    arguments: argparse.Namespace, target: Target, hosts: Sequence[Host]
) -> tuple[list[Report], list[HostwheelError]]:
    """What cannot be read does not keep the others from being told."""
    reports, errors = [], []
    for file in arguments.files:
        try:
            reports.append(audit_file(file, target, hosts, arguments))
        except HostwheelError as error:
            errors.append(error)
    return reports, errors


def check_files(arguments: argparse.Namespace) -> None:
    if not arguments.files:
        raise BadInput("name a FILE to audit: a wheel, an archive, a folder or a library")
    if arguments.html and len(arguments.files) > 1:
        raise BadInput("--html takes one FILE; with several, give --out DIR")
    if arguments.symbols and not arguments.symbols.is_dir():
        raise BadInput(f"{arguments.symbols}: no such folder; give the symbols/ of a build")


def find_target(arguments: argparse.Namespace, hosts: Sequence[Host]) -> Target:
    if arguments.plan:
        return of_plan(read_plan(arguments.plan))
    if arguments.host:
        return Target(host=find_host(arguments.host, hosts))
    return Target(host=this_machine()) if arguments.this_machine else Target()


def audit_file(
    file: Path, target: Target, hosts: Sequence[Host], arguments: argparse.Namespace
) -> Report:
    beside = file.absolute().parent.parent / "symbols"
    symbols = arguments.symbols or (beside if beside.is_dir() else None)
    with shown_progress(file.name) as advance:
        return audit(file, target, hosts, symbols, advance)


@contextmanager
def shown_progress(name: str) -> Iterator[Advance]:
    """A bar on a terminal, nothing elsewhere; on stderr, so that --json can be piped."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield no_progress
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:.0f}%"),
    )
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as bar:
        task = bar.add_task(f"reading {visible(name)}", total=None)

        def advance(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, refresh=True)

        yield advance


def refused(report: Report) -> bool:
    return any(finding.standing == "refused" for finding in report.findings)


def tell(reports: Sequence[Report], arguments: argparse.Namespace) -> None:
    told = {"schema": 1, "auditor": AUDITOR, "reports": [plain(report) for report in reports]}
    text = json.dumps(told, indent=1) + "\n"
    if arguments.out:
        write_out(arguments.out, text, reports)
    if arguments.html:
        write_page(reports[0], arguments.html)
    if arguments.json:
        print(text, end="")
        return
    console = people()
    for report in reports:
        show_report(report, console)


def write_out(folder: Path, text: str, reports: Sequence[Report]) -> None:
    """audit.json of all; audit.html of the first, audit-2.html of the second, …"""
    fresh = folder / ".audit.json.new"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(folder / "audit.json")
    except OSError as error:
        with suppress(OSError):
            fresh.unlink()
        raise MachineLacks(f"cannot write into {folder}: {error.strerror}; name another") from None
    for number, report in enumerate(reports, 1):
        write_page(report, folder / ("audit.html" if number == 1 else f"audit-{number}.html"))
