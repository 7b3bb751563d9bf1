"""Plans and recipes for people, as tables."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from hostwheel.plan.plan import Plan


def show_plan(plan: Plan, console: Console) -> None:
    facts = Table(show_header=False, box=None, pad_edge=False)
    for name, value in summary(plan):
        facts.add_row(name, value)
    console.print(facts)
    defines = Table("CMake variable", "value", title="Defines", title_justify="left", box=None)
    for name, value in sorted(plan.defines.items()):
        defines.add_row(name, value)
    console.print(defines)
    environment = Table("variable", "value", title="Environment", title_justify="left", box=None)
    for name, value in sorted(plan.engine.environment.items()):
        environment.add_row(name, value)
    console.print(environment)
    console.print(f"and, where set: {' '.join(plan.engine.passed_through)}")


def summary(plan: Plan) -> Iterable[tuple[str, str]]:
    yield "recipe", plan.recipe
    yield "host", f"{plan.host.name}: {plan.host.title}"
    yield "source", f"llama-cpp-python {plan.source.version}"
    yield "llama.cpp", plan.source.llama_cpp_commit
    yield "patches", ", ".join(plan.patches) or "none"
    yield "CPU features", " ".join(plan.features)
    if plan.cuda:
        yield "CUDA", f"{plan.cuda.toolkit}, machine code for sm_{plan.cuda.architecture}, no PTX"
        yield "driver", f"{plan.cuda.driver} or newer"
    yield "wheel", plan.wheel
    yield "archive", plan.archive
    yield "plan hash", plan.hash


def recipe_rows(plans: Iterable[Plan]) -> list[tuple[str, ...]]:
    """The table of the README: recipe, host, CPU, GPU, driver, label."""
    return [
        (
            plan.recipe,
            plan.host.title,
            plan.label,
            f"sm_{plan.cuda.architecture}" if plan.cuda else "none",
            plan.cuda.driver if plan.cuda else "none",
        )
        for plan in plans
    ]


HEADINGS = ("recipe", "host", "label", "GPU code", "driver at least")


def table(rows: Iterable[tuple[str, ...]]) -> Table:
    made = Table(box=None, pad_edge=False)
    for heading in HEADINGS:
        made.add_column(heading, no_wrap=heading != "host")
    for row in rows:
        made.add_row(*row)
    return made


def markdown(rows: Iterable[tuple[str, ...]]) -> str:
    lines = [HEADINGS, tuple("---" for _ in HEADINGS), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
