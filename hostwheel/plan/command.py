"""`hostwheel recipes` and `plan` on the command line, and what other commands on recipes share."""

import argparse
import json
from pathlib import Path

from hostwheel.plan.data import Data, file_hashes, find_data
from hostwheel.plan.patches import patch_hashes
from hostwheel.plan.plan import Plan, make_plan
from hostwheel.plan.recipe import load_recipe, recipe_names
from hostwheel.plan.show import HEADINGS, markdown, people, recipe_rows, show_plan, table


def add_folder(made: argparse.ArgumentParser) -> None:
    """Where a command's recipes and hosts come from, for `find_data`."""
    made.add_argument("--recipes", type=Path, metavar="DIR", help="a recipes folder to use")


def planned(wanted: str, data: Data) -> Plan:
    recipe = load_recipe(wanted, data.recipes)
    patches = patch_hashes(data.patches, recipe.source.version)
    return make_plan(recipe, patches, file_hashes(data.locks, "*.txt"))


def add_recipes_arguments(made: argparse.ArgumentParser) -> None:
    add_folder(made)
    made.add_argument("--markdown", action="store_true", help="as the README has it")
    made.add_argument("--json", action="store_true", help="for machines")
    made.set_defaults(run=run_recipes)


def add_plan_arguments(made: argparse.ArgumentParser) -> None:
    add_folder(made)
    made.add_argument("recipe", help="a recipe's name, or a TOML file")
    made.add_argument("--json", action="store_true", help="for machines")
    made.set_defaults(run=run_plan)


def run_recipes(arguments: argparse.Namespace) -> int:
    data = find_data(arguments.recipes)
    rows = recipe_rows(planned(name, data) for name in recipe_names(data.recipes))
    if arguments.json:
        print(json.dumps([dict(zip(HEADINGS, row, strict=True)) for row in rows], indent=1))
    elif arguments.markdown:
        print(markdown(rows), end="")
    else:
        people().print(table(rows))
    return 0


def run_plan(arguments: argparse.Namespace) -> int:
    plan = planned(arguments.recipe, find_data(arguments.recipes))
    if arguments.json:
        print(json.dumps(plan.json(), indent=1))
    else:
        show_plan(plan, people())
    return 0
