"""`hostwheel pick` on the command line."""

import argparse
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from hostwheel.audit.target import find_host, known_hosts
from hostwheel.audit.visible import visible
from hostwheel.errors import Refused
from hostwheel.facts.host import Host
from hostwheel.plan.command import add_folder
from hostwheel.plan.data import find_data
from hostwheel.plan.plan import plain
from hostwheel.plan.show import grid, people
from hostwheel.publish.catalog import Entry
from hostwheel.user.capture_host import host_of, this_machine
from hostwheel.user.pick import Picked, against, pick
from hostwheel.user.pick_catalog import bucket, fetch, requirement
from hostwheel.user.pick_python import Python, find_python, install


def add_pick_arguments(made: argparse.ArgumentParser) -> None:
    """Give `made`, the parser of the subcommand, its options."""
    add_folder(made)
    made.add_argument("url", metavar="URL", help="the bucket: https://…, file://… or a folder")
    host_help = "a host file, or a known host's name; default: this machine"
    made.add_argument("--host", metavar="FILE", help=host_help)
    python_help = "interpreter or environment to install into; default: the active one"
    made.add_argument("--python", type=Path, metavar="PATH", help=python_help)
    made.add_argument("--install", action="store_true", help="install it with pip")
    made.add_argument("--json", action="store_true", help="for machines")
    made.set_defaults(run=run_pick)


def run_pick(arguments: argparse.Namespace) -> int:
    """0: one fits; 1: none does."""
    address = bucket(arguments.url)
    host = chosen_host(arguments)
    python = chosen_python(arguments)
    picked = pick(fetch(address), host, python.version if python else None)
    if arguments.json:
        print(json.dumps(as_json(picked, host, address), indent=1))
    else:
        show(picked, host, address, people())
    if picked.best is None:
        return Refused.exit_code
    if arguments.install:
        chosen = python or find_python(None)
        if arguments.host:
            check_here(picked.best, host, chosen)
        install(chosen, requirement(address, picked.best))
    return 0


def check_here(entry: Entry, host: Host, python: Python) -> None:
    """Refused where what was picked for another machine does not fit this one."""
    reasons = tuple(against(entry, host_of(this_machine()), python.version))
    if reasons:
        what = f"{entry.filename} is for {host.name}, and does not fit this machine"
        raise Refused(
            f"{what}; nothing was installed: leave --host out"
            + "".join(f"\n    {visible(reason)}" for reason in reasons)
        )


def chosen_host(arguments: argparse.Namespace) -> Host:
    if arguments.host is None:
        return host_of(this_machine())
    if arguments.host.endswith(".toml"):
        return find_host(arguments.host, ())
    return find_host(arguments.host, known_hosts(find_data(arguments.recipes).recipes))


def chosen_python(arguments: argparse.Namespace) -> Python | None:
    """None where another machine is asked about, whose Python is not known."""
    if arguments.host and not arguments.python and not arguments.install:
        return None
    return find_python(arguments.python)


def commands(address: str, entry: Entry) -> Mapping[str, str]:
    wanted = shlex.quote(requirement(address, entry))
    return {"pip": f"pip install {wanted}", "uv": f"uv pip install {wanted}"}


def as_json(picked: Picked, host: Host, address: str) -> Mapping[str, Any]:
    best = picked.best
    return {
        "schema": 1,
        "host": plain(host),
        "picked": plain(best) if best else None,
        "commands": commands(address, best) if best else {},
        "warning": picked.warning,
        "others": [
            {"recipe": each.entry.recipe, "filename": each.entry.filename, "reason": each.reason}
            for each in picked.others
        ],
    }


def show(picked: Picked, host: Host, address: str, console: Console) -> None:
    with_driver = f", driver {host.gpu.driver}" if host.gpu else ""
    what = visible(f"{host.name} ({host.title}{with_driver})")
    if picked.best:
        size = picked.best.size / 1e6
        headline = visible(f"{picked.best.filename} ({size:.0f} MB)")
        console.print(Text(headline, style="bold green"))
        console.print(Text(f"is the fastest here for {what}"))
        if picked.warning:
            console.print(Text(visible(picked.warning), style="yellow"))
        for line in commands(address, picked.best).values():
            console.print(Text(f"\n{visible(line)}"), soft_wrap=True)
    else:
        console.print(Text(f"None of these fits {what}", style="bold red"))
    if picked.others:
        cells = ((each.entry.recipe, each.entry.version, each.reason) for each in picked.others)
        rows = [tuple(map(visible, row)) for row in cells]
        console.print(Text("\nThe others" if picked.best else ""))
        console.print(grid(("recipe", "version", "value"), rows, show_header=False))
