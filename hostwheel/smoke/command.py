"""`hostwheel smoke` on the command line."""

import argparse
import json
from pathlib import Path

from hostwheel.plan.command import add_folder
from hostwheel.plan.data import find_data
from hostwheel.plan.recipe import recipe_file
from hostwheel.smoke.smoke import Request, smoke, summary

NOT_HERE = 3


def add_smoke_arguments(made: argparse.ArgumentParser) -> None:
    """Give `made`, the parser of the subcommand, its options."""
    add_folder(made)
    made.add_argument("recipe", help="a recipe's name, or a TOML file; it must have been built")
    made.add_argument("--out", type=Path, metavar="DIR", default=Path("out"), help="default: out")
    made.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        default=(),
        help="files of the suite, such as cpu for test_cpu.py; then no smoke.json is written",
    )
    made.add_argument("--model", type=Path, metavar="FILE", help="a local copy of SmolLM2")
    made.add_argument("--source", type=Path, metavar="DIR", help="llama.cpp's sources")
    made.add_argument("--gpu", action="store_true", help="fail where no GPU is found")
    made.add_argument("--json", action="store_true", help="print smoke.json at the end")
    made.set_defaults(run=run_smoke)


def run_smoke(arguments: argparse.Namespace) -> int:
    out = arguments.out / Path(arguments.recipe).stem
    if not (out / "build.json").is_file():
        recipes = find_data(arguments.recipes).recipes
        recipe_file(arguments.recipe, recipes)  # which says so if there is none
    request = Request(
        out=out,
        only=tuple(arguments.only),
        model=arguments.model,
        source=arguments.source,
        gpu=arguments.gpu,
    )
    evidence = smoke(request)
    said = json.dumps(evidence, indent=1) if arguments.json else "\n".join(summary(evidence))
    print(said)
    if evidence["passed"]:
        return 0
    return 1 if any(check["outcome"] == "failed" for check in evidence["checks"]) else NOT_HERE
