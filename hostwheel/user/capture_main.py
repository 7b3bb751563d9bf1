"""hostwheel-capture.pyz on the command line. Standard library only, Python 3.8 and newer."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from hostwheel.user.capture_machine import this_machine
from hostwheel.user.capture_text import as_json, host_file

NOT_HERE = 3


def add_arguments(made: argparse.ArgumentParser) -> None:
    """What the zipapp and `hostwheel capture` both know."""
    made.add_argument("--json", action="store_true", help="everything that was found, for machines")
    made.add_argument("--name", default="", help="a name for the machine, to begin its title with")


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="hostwheel-capture.pyz",
        description="Print this machine as a host file for hostwheel.",
        epilog="example: python hostwheel-capture.pyz > host.toml",
    )
    add_arguments(parser)
    asked = parser.parse_args(given)
    try:
        machine = this_machine()
    except OSError as error:
        print(f"hostwheel: {error}", file=sys.stderr)
        return NOT_HERE
    text = as_json(machine, asked.name) if asked.json else host_file(machine, asked.name)
    return show(text.rstrip("\n").encode() + b"\n")


def show(text: bytes) -> int:
    """Not in the locale's encoding: TOML is UTF-8, and a bare container's locale is ASCII."""
    try:
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python tries once more at its end
        print(f"hostwheel: cannot write: {error.strerror}; make room", file=sys.stderr)
        return NOT_HERE
    return 0
