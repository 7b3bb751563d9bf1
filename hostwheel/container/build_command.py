"""`hostwheel build`, `image` and `pins` on the command line."""

import argparse
from pathlib import Path

from hostwheel.build.build import build
from hostwheel.build.report import write_report
from hostwheel.build.reproducible import check_reproducible
from hostwheel.container.command import (
    add_build_engine,
    add_image_arguments,
    builder_for,
    image,
    pins,
)
from hostwheel.plan.command import add_folder, planned
from hostwheel.plan.data import find_data


def add_build(made: argparse.ArgumentParser) -> None:
    add_folder(made)
    made.add_argument("recipe", help="a recipe's name, or a TOML file")
    made.add_argument("--archive", type=Path, metavar="FILE", help="a local copy of the source")
    made.add_argument("--out", type=Path, metavar="DIR", default=Path("out"), help="default: out")
    made.add_argument("--json", action="store_true", help="print build.json at the end")
    made.add_argument(
        "--report", action="store_true", help="only draw where the time of the last build went"
    )
    made.add_argument(
        "--check-reproducible",
        action="store_true",
        help="build twice, the second time from nothing, and compare byte by byte",
    )
    add_build_engine(made)
    made.set_defaults(run=run_build)


def add_image(made: argparse.ArgumentParser) -> None:
    add_folder(made)
    add_image_arguments(made)
    made.set_defaults(run=run_image)


def add_pins(made: argparse.ArgumentParser) -> None:
    add_folder(made)
    made.set_defaults(run=run_pins)


def run_build(arguments: argparse.Namespace) -> int:
    data = find_data(arguments.recipes)
    plan = planned(arguments.recipe, data)
    out = arguments.out / plan.recipe
    if arguments.report:
        print(write_report(out))
        return 0
    make = check_reproducible if arguments.check_reproducible else build
    builder = builder_for(plan, data, arguments.engine, arguments.base)
    wheel = make(plan, data, out, archive=arguments.archive, builder=builder)
    print((out / "build.json").read_text() if arguments.json else wheel)
    return 0


def run_image(arguments: argparse.Namespace) -> int:
    data = find_data(arguments.recipes)
    print(image(planned(arguments.recipe, data), data, arguments.engine, arguments.base))
    return 0


def run_pins(arguments: argparse.Namespace) -> int:
    for line in pins(find_data(arguments.recipes)):
        print(line)
    return 0
