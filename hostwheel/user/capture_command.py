"""`hostwheel capture` on the command line."""

import argparse
from pathlib import Path

from hostwheel.user.capture_host import this_machine
from hostwheel.user.capture_main import add_arguments
from hostwheel.user.capture_pyz import write_pyz
from hostwheel.user.capture_text import as_json, host_file


def add_capture_arguments(made: argparse.ArgumentParser) -> None:
    """Give `made`, the parser of the subcommand, its options."""
    add_arguments(made)
    made.add_argument(
        "--pyz",
        type=Path,
        metavar="FILE",
        help="instead write one file to send to the machine: python FILE > host.toml there",
    )
    made.set_defaults(run=run_capture)


def run_capture(arguments: argparse.Namespace) -> int:
    if arguments.pyz:
        write_pyz(arguments.pyz)
        print(arguments.pyz)
        return 0
    machine = this_machine()
    if arguments.json:
        print(as_json(machine, arguments.name))
    else:
        print(host_file(machine, arguments.name), end="")
    return 0
