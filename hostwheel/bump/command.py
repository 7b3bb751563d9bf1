"""`hostwheel bump` on the command line."""

import argparse
import json
from pathlib import Path

from hostwheel.bump.planned import planned_by
from hostwheel.bump.registry import INDEX
from hostwheel.bump.request import Request, answer, pin
from hostwheel.bump.show import show_bump
from hostwheel.plan.command import add_folder, planned
from hostwheel.plan.data import find_data
from hostwheel.plan.recipe import recipe_names
from hostwheel.plan.show import people


def add_bump_arguments(made: argparse.ArgumentParser) -> None:
    add_folder(made)
    made.add_argument("version", help="a version of llama-cpp-python")
    made.add_argument("--archive", type=Path, metavar="FILE", help="a local copy of its archive")
    made.add_argument("--index", default=INDEX, metavar="URL", help=f"default: {INDEX}")
    base = made.add_mutually_exclusive_group()
    base.add_argument("--from", dest="base", help="a pinned version; default: the pinned default")
    base.add_argument("--from-archive", type=Path, metavar="FILE", help="an archive instead")
    made.add_argument("--write", action="store_true", help="pin it, if the patches apply")
    made.add_argument("--json", action="store_true", help="for machines")
    made.set_defaults(run=run_bump)


def run_bump(arguments: argparse.Namespace) -> int:
    """1: something needs a decision first."""
    data = find_data(arguments.recipes)
    plans = [planned(name, data) for name in recipe_names(data.recipes)]
    request = Request(
        version=arguments.version,
        archive=arguments.archive,
        index=arguments.index,
        base=arguments.base,
        base_archive=arguments.from_archive,
        write=arguments.write,
    )
    found = answer(request, data, planned_by(plans))
    if arguments.json:
        print(json.dumps(found.bump.json(), indent=1))
    else:
        show_bump(found.bump, people())
    if arguments.write:
        pin(found, data)
    return 1 if found.bump.unplanned else 0
