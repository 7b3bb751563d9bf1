"""`hostwheel bundle` on the command line."""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from hostwheel.artifact.contents import sha256
from hostwheel.audit.target import find_host, known_hosts
from hostwheel.errors import BadInput
from hostwheel.plan.command import add_folder
from hostwheel.plan.data import find_data
from hostwheel.plan.show import grid, people
from hostwheel.trust.ssh import check_can_sign
from hostwheel.user.bundle import Bundle, Request, bundle
from hostwheel.user.bundle_source import Wish

UNITS = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
THIS_PYTHON = "{}.{}".format(*sys.version_info[:2])


def add_bundle_arguments(made: argparse.ArgumentParser) -> None:
    """Give `made`, the parser of the subcommand, its options."""
    add_folder(made)
    made.add_argument("source", metavar="URL|DIR", help="a bucket's URL or folder, or out/RECIPE")
    place = made.add_mutually_exclusive_group(required=True)
    place.add_argument("-o", "--output", type=Path, metavar="FILE", help="the zip file to write")
    place.add_argument("--into", type=Path, metavar="DIR", help="a submission to put it into")
    made.add_argument("--recipe", metavar="NAME", help="which build of the bucket")
    made.add_argument("--host", metavar="NAME|FILE", help="the machine: a known one or a host file")
    made.add_argument(
        "--python", default=THIS_PYTHON, metavar="X.Y", help=f"the machine's; default {THIS_PYTHON}"
    )
    files: dict[str, Any] = {"type": Path, "metavar": "FILE", "action": "append", "default": []}
    theirs = "your own requirements, resolved together with ours; may be repeated"
    made.add_argument("--requirements", "-r", **files, help=theirs)
    made.add_argument("--gguf", **files, help="a model; may be repeated, the first is the server's")
    made.add_argument("--license", **files, help="a text to put into licenses/; may be repeated")
    made.add_argument(
        "--prune", action="store_true", help="leave out NVIDIA's wheels that the build never loads"
    )
    made.add_argument("--max-size", metavar="SIZE", help="refuse a larger one: 500MB, 2GB, 2GiB")
    key = "sign the bundle with this SSH key: its SHA256SUMS, and so every file"
    made.add_argument("--key", type=Path, metavar="FILE", help=key)
    made.add_argument("--json", action="store_true", help="for machines")
    made.set_defaults(run=run_bundle)


def run_bundle(arguments: argparse.Namespace) -> int:
    signing = check_can_sign(arguments.key) if arguments.key else None  # before anything is fetched
    hosts = known_hosts(find_data(arguments.recipes).recipes) if arguments.host else ()
    host = find_host(arguments.host, hosts) if arguments.host else None
    request = Request(
        source=arguments.source,
        wish=Wish(recipe=arguments.recipe, host=host),
        python=arguments.python,
        output=arguments.output,
        into=arguments.into,
        requirements=tuple(arguments.requirements),
        models=tuple(arguments.gguf),
        licences=tuple(arguments.license),
        prune=arguments.prune,
        max_size=read_size(arguments.max_size) if arguments.max_size else None,
        key=arguments.key,
    )
    made = bundle(request)
    if arguments.json:
        said = {**as_json(made), "key": signing and signing.fingerprint}
        print(json.dumps(said, indent=1))
    else:
        show(made, people())
        print(f"signed with {signing}" if signing else "not signed: --key FILE signs it")
    return 0


def read_size(text: str) -> int:
    """Bytes of "500MB", "2GB", "2GiB", "1000000"."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]i?|)B?", text)
    if match is None:
        raise BadInput(f"--max-size is {text!r}: expected something like 500MB, 2GB or 2GiB")
    return int(float(match[1]) * UNITS[match[2]])


def as_json(made: Bundle) -> dict[str, Any]:
    facts = made.facts
    return {
        "schema": 1,
        "place": str(made.place),
        "sha256": sha256(made.place) if made.place.is_file() else None,
        "size": made.size,
        "parts": {title: {name: made.sizes[name] for name in p} for title, p in made.parts.items()},
        "recipe": facts.build.recipe,
        "version": facts.build.version,
        "python": facts.aim.python,
        "glibc": facts.aim.glibc,
        "packages": {each.name: str(each.version) for each in facts.wheels},
        "left_out": {each.wheel.name: each.wheel.size for each in facts.left_out},
        "unproved": list(facts.build.unproved),
    }


def show(made: Bundle, console: Console) -> None:
    """Sizes by part, then what a person has to know."""
    rows = [(title, str(len(names)), size_of(made, names)) for title, names in made.parts.items()]
    rows.append(("together", str(len(made.sizes)), size_of(made, tuple(made.sizes))))
    console.print(grid(("part", "files", "MB"), rows, pad_edge=False))
    for line in notes(made):
        console.print(Text(line))


def size_of(made: Bundle, names: Sequence[str]) -> str:
    return f"{sum(made.sizes[name] for name in names) / 1e6:8.1f}"


def notes(made: Bundle) -> Iterator[str]:
    facts = made.facts
    yield f"for CPython {facts.aim.python}, glibc {facts.aim.glibc} or newer: {made.place}"
    for each in facts.left_out:
        later = f"; {', '.join(each.opened_by)} may open it later" if each.opened_by else ""
        yield (
            f"left out: {each.wheel.name}, {each.wheel.size / 1e6:.1f} MB, which nothing loads"
            f" at its start{later}"
        )
    if facts.build.unproved:
        yield f"not proved: no {', '.join(facts.build.unproved)} for exactly this wheel"
