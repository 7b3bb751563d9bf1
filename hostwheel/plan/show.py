"""Plans and recipes for people, as tables."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hostwheel.plan.plan import Plan

UNCUT = 1_000_000  # columns
PROSE = ("host", "value")  # columns that give way where the terminal is narrow


def people() -> Console:
    """stdout for people: a terminal at its width; a pipe or file gets every line whole."""
    console = Console()
    return console if console.is_terminal else Console(width=UNCUT)


def show_plan(plan: Plan, console: Console) -> None:
    console.print(grid(("fact", "value"), summary(plan), show_header=False, pad_edge=False))
    defines = sorted(plan.defines.items())
    console.print(grid(("CMake variable", "value"), defines, title="Defines"))
    environment = sorted(plan.engine.environment.items())
    console.print(grid(("variable", "value"), environment, title="Environment"))
    console.print(Text(f"and, where set: {' '.join(plan.engine.passed_through)}"))


def grid(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    title: str | None = None,
    show_header: bool = True,
    pad_edge: bool = True,
) -> Table:
    """Cells are shown as they are, folded where they do not fit, never cut."""
    made = Table(
        title=title, title_justify="left", box=None, show_header=show_header, pad_edge=pad_edge
    )
    for heading in headings:
        made.add_column(Text(heading), overflow="fold", no_wrap=heading not in PROSE)
    for row in rows:
        made.add_row(*(Text(cell, no_wrap=False) for cell in row))
    return made


def summary(plan: Plan) -> Iterable[tuple[str, str]]:
    yield "recipe", plan.recipe
    yield "host", f"{plan.host.name}: {plan.host.title}"
    yield "source", f"llama-cpp-python {plan.source.version}"
    yield "llama.cpp", plan.source.llama_cpp_commit
    yield "patches", ", ".join(plan.patches) or "none"
    yield "CPU features", " ".join(plan.features) or "nothing beyond x86-64"
    if len(plan.backends) > 1:
        names = (backend.name.removeprefix("ggml-cpu-") for backend in plan.backends)
        yield "CPU variants", f"the best that the CPU can run of {' '.join(names)}"
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
    return grid(HEADINGS, rows, pad_edge=False)


def markdown(rows: Iterable[tuple[str, ...]]) -> str:
    lines = [HEADINGS, tuple("---" for _ in HEADINGS), *rows]
    return "".join(f"| {' | '.join(map(markdown_cell, cells))} |\n" for cells in lines)


def markdown_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
