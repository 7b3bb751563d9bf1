"""`hostwheel doctor` on the command line."""

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from hostwheel.artifact.contents import open_artifact
from hostwheel.audit.command import shown_progress
from hostwheel.audit.visible import visible
from hostwheel.errors import BadInput, MachineLacks
from hostwheel.plan.plan import plain
from hostwheel.plan.show import people
from hostwheel.user.capture_host import host_of, this_machine
from hostwheel.user.capture_machine import Machine
from hostwheel.user.doctor import Case, diagnose
from hostwheel.user.doctor_build import file_build, installed_build
from hostwheel.user.doctor_site import Site, read_site
from hostwheel.user.findings import PICK, Finding, Standing
from hostwheel.user.pick_python import Python, find_python
from hostwheel.user.verify_files import is_bundle

Reports = Sequence[tuple[Case, Sequence[Finding]]]

STYLES: Mapping[Standing, str] = {
    "stops": "red",
    "slows": "yellow",
    "undecided": "yellow",
    "noted": "cyan",
    "well": "green",
}
VERDICTS: Mapping[Standing, str] = {
    "stops": "cannot run here as it is",
    "undecided": "may run here",
    "slows": "runs here, and could do better",
    "noted": "runs here",
    "well": "runs here",
}
INDENT = 11
SHOWN = 4
BUILDS = ("*.whl", "*.tar.gz", "*.tar.xz", "*.zip")
WHEELS = "the llama_cpp_python wheel in wheels/"


def add_doctor_arguments(made: argparse.ArgumentParser) -> None:
    """Give `made`, the parser of the subcommand, its options."""
    what = "a build in a file: anyone's; default: the llama_cpp that is installed"
    made.add_argument("wheel", type=Path, nargs="?", metavar="WHEEL", help=what)
    python_help = "interpreter or environment to look into; default: the active one"
    made.add_argument("--python", type=Path, metavar="PATH", help=python_help)
    made.add_argument("--json", action="store_true", help="for machines")
    made.set_defaults(run=run_doctor)


def run_doctor(arguments: argparse.Namespace) -> int:
    """0: it can run here, if perhaps slower than need be; 1: something stops it."""
    machine, python = this_machine(), find_python(arguments.python)
    site = read_site((Path.cwd(), *python.path))
    if arguments.wheel:
        cases = [given(arguments.wheel, machine, site, python)]
    else:
        cases = list(installed(machine, site, python))
    reports = [(case, diagnose(case)) for case in cases]
    if arguments.json:
        print(json.dumps(as_json(reports, machine, python), indent=1))
    else:
        show(reports, machine, people())
    return max(int(verdict(found) == "stops") for _, found in reports)


def given(wheel: Path, machine: Machine, site: Site, python: Python) -> Case:
    check_single(wheel)
    with tempfile.TemporaryDirectory(prefix="hostwheel-doctor-") as folder:
        contents = open_artifact(wheel, Path(folder))
        with shown_progress(wheel.name) as advance:
            build = file_build(contents, site, host_of(machine), advance)
    return Case(machine=machine, build=build, site=site, copy=None, python=python.version)


def check_single(path: Path) -> None:
    """BadInput for what holds builds as files: it names the one to give."""
    if is_bundle(path):
        how = f"unpack it, and give {WHEELS}, or run there: python install.py --check"
        raise BadInput(f"{path} is a bundle of `hostwheel bundle`: {how}")
    found = sorted(each.name for end in BUILDS for each in path.glob(end)) if path.is_dir() else []
    if found:
        raise BadInput(f"{path} is a folder of builds, give one: {', '.join(found[:SHOWN])}")


def installed(machine: Machine, site: Site, python: Python) -> Iterator[Case]:
    """Of each package's name the copy that Python imports."""
    if not site.copies:
        where = f"no llama_cpp in the packages of {python.program}"
        raise MachineLacks(f"{where}; {PICK}, or name another --python")
    for copy in {each.folder.name: each for each in reversed(site.copies)}.values():
        with shown_progress(copy.folder.name) as advance:
            build = installed_build(copy, site, host_of(machine), advance)
        yield Case(machine=machine, build=build, site=site, copy=copy, python=python.version)


def verdict(found: Sequence[Finding]) -> Standing:
    """The worst standing."""
    return min((finding.standing for finding in found), key=list(VERDICTS).index, default="well")


def as_json(reports: Reports, machine: Machine, python: Python) -> Mapping[str, Any]:
    return {
        "schema": 1,
        "machine": plain(host_of(machine)),
        "python": {"program": str(python.program), "version": python.version},
        "reports": [
            {
                "build": case.build.name,
                "where": str(case.build.where),
                "standing": verdict(found),
                "findings": [plain(finding) for finding in found],
            }
            for case, found in reports
        ],
    }


def show(reports: Reports, machine: Machine, console: Console) -> None:
    for number, (case, found) in enumerate(reports):
        standing = verdict(found)
        if number:
            console.print()
        headline = f"{visible(case.build.name)} {VERDICTS[standing]}"
        console.print(Text(headline, style=f"bold {STYLES[standing]}"))
        console.print(Text(f"{visible(str(case.build.where))}, on {host_of(machine).title}"))
        for finding in found:
            show_finding(finding, console)


def show_finding(finding: Finding, console: Console) -> None:
    """The check's name in the colour of its standing, and the command that mends it below."""
    line = Text(f"{finding.check:<{INDENT}}", style=STYLES[finding.standing])
    bad = finding.standing in ("stops", "undecided", "slows")
    told = f"{finding.standing}: {finding.message}" if bad else finding.message
    line.append(visible(told), style="default")
    hang(line, console)
    if finding.remedy and finding.standing != "well":
        hang(Text(" " * INDENT + "→ " + visible(finding.remedy), style="bold"), console)


def hang(line: Text, console: Console) -> None:
    """Print it folded, with what follows below the first line's text."""
    first, *rest = line.wrap(console, max(console.width - INDENT, 40))
    console.print(first, soft_wrap=True)
    for each in rest:
        console.print(Text(" " * INDENT) + each, soft_wrap=True)
