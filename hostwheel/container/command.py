"""`--engine` and `--base` of a build, and the subcommands `image` and `pins`."""

import argparse

from hostwheel.build.build import LOCAL, Builder
from hostwheel.build.lock import locked
from hostwheel.container.bases import docker_folder
from hostwheel.container.builder import ContainerBuilder, container_builder, warnings
from hostwheel.container.engines import CHOICES, NAMES, choose
from hostwheel.container.pins import pin_bases
from hostwheel.errors import BadInput
from hostwheel.plan.data import Data
from hostwheel.plan.defines import ROOT
from hostwheel.plan.plan import Plan
from hostwheel.run import say


def add_engine(made: argparse.ArgumentParser, *, choices: tuple[str, ...], default: str) -> None:
    about = {
        "auto": "the first of docker and podman that starts a container, else local",
        "local": "this machine's compiler",
    }
    told = "; ".join(f"{name}: {text}" for name, text in about.items() if name in choices)
    made.add_argument(
        "--engine", choices=choices, default=default, help=f"default: {default}. {told}"
    )
    made.add_argument(
        "--base", metavar="IMAGE", help="a base of docker/images.toml, or an image NAME:TAG"
    )


def add_build_engine(made: argparse.ArgumentParser) -> None:
    add_engine(made, choices=CHOICES, default="local")


def add_image_arguments(made: argparse.ArgumentParser) -> None:
    made.add_argument("recipe", help="a recipe's name, or a TOML file")
    add_engine(made, choices=("auto", *NAMES), default="auto")


def builder_for(plan: Plan, data: Data, engine: str, base: str | None) -> Builder:
    """The builder of a command line, after saying which it is and why, and what is doubtful."""
    if engine == "local":
        if base is not None:
            raise BadInput("--base is for containers: give --engine docker, podman or auto too")
        return LOCAL
    choice = choose(engine)
    say(f"engine: {choice.why}")
    if choice.engine is None:
        return LOCAL
    builder = container_builder(plan, data, choice.engine, base)
    for warning in warnings(plan, builder):
        say(f"warning: {warning}")
    return builder


def image(plan: Plan, data: Data, engine: str, base: str | None) -> str:
    """Have the image that the plan is built in; return its name."""
    builder = builder_for(plan, data, engine, base)
    if not isinstance(builder, ContainerBuilder):
        raise BadInput("an image needs a container engine: install docker or podman")
    compiler = builder.compiler(plan)
    with locked(ROOT, plan.recipe):
        builder.tools(builder.planned(plan), data, compiler)
    return builder.image


def pins(data: Data) -> tuple[str, ...]:
    return pin_bases(docker_folder(data) / "images.toml")
