"""A comparison for people, and as JSON. Files go by their names, never by where they lie."""

import json
import platform
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hostwheel import __version__
from hostwheel.readout.parity import Difference
from hostwheel.readout.parity_run import SETTINGS, Compared, Prompt, Report

PACKAGES = ("llama_cpp_python", "transformers", "torch", "numpy", "accelerate", "gguf")
TEMPLATES = {
    True: "both render the prompts alike",
    False: "they render the prompts differently: the GGUF's rendering was used for both",
    None: "transformers has none: the GGUF's rendering, or plain text, was used for both",
}

# Figures: bench/parity_smollm2.json. In parity_smollm2_q8_0.json and parity_smollm2_f16.json
# transformers has the rounded weights too, so what is left comes from rounding the other factor: it
# is most of the difference. parity_gelu.json shows that the table of GELU is all of Gemma's.
WHY_WEIGHTS = {
    "F32": "as transformers has them; sums are added up in another order",
    "F16": "rounded to 11 significant bits, and so is what they are multiplied with",
    "BF16": "rounded to 8 significant bits, and so is what they are multiplied with",
}
WHY_BLOCKS = (
    "whole numbers with a scale for each block; what they are multiplied with is rounded to 8 bits "
    "in the same way, and that is often the larger part"
)
WHY_SETTINGS = {
    "F32 cache": "nothing is rounded, but for GELU (Gemma), which llama.cpp has in a table of F16",
    "F16 cache": "keys and values of attention are rounded to 11 significant bits",
    "F16 cache, FlashAttention": "besides, attention is summed up in one pass, partly in F16",
}


def as_json(report: Report) -> dict[str, Any]:
    """`same_template`: whether both chat templates render alike; null where there is but one."""
    return {
        "command": command(report),
        "unit": "absolute difference of log-probabilities, natural logarithm",
        "reference": {"model": report.source.name, "dtype": "float32", "device": "cpu"},
        "same_template": report.same_template,
        "versions": versions(),
        "compared": [row_json(row, len(report.prompts)) for row in report.compared],
        "prompts": [prompt_json(prompt) for prompt in report.prompts],
        "why": dict(reasons(report)),
    }


def command(report: Report) -> str:
    names = dict.fromkeys(row.gguf.path.name for row in report.compared)
    ggufs = " ".join(f"--gguf {name}" for name in names)
    return f"hostwheel parity {ggufs} --model {report.source.name} --json"


def row_json(row: Compared, prompts: int) -> dict[str, Any]:
    found = row.agreement
    return {
        "gguf": row.gguf.path.name,
        "weights": row.gguf.weights,
        "settings": row.settings,
        "options": dict(SETTINGS[row.settings]),
        "argmax": f"{found.argmax}/{prompts}",
        "vocabulary": {"largest": found.vocabulary.largest, "mean": found.vocabulary.mean},
        "labels": {"largest": found.labels.largest, "mean": found.labels.mean},
        "largest_by_prompt": list(found.by_prompt),
    }


def prompt_json(prompt: Prompt) -> dict[str, Any]:
    return {
        "kind": prompt.question.kind,
        "question": prompt.question.text,
        "tokens": len(prompt.tokens),
        "labels": dict(zip(prompt.question.labels, prompt.labels, strict=True)),
    }


def versions() -> dict[str, Any]:
    return {
        "hostwheel": __version__,
        "python": platform.python_version(),
        **{name: installed(name) for name in PACKAGES},
        "torch CPU code": import_module("torch").backends.cpu.get_cpu_capability(),
        "llama.cpp": engine(),
    }


def installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def engine() -> dict[str, Any]:
    """What the installed wheel was built from, where hostwheel built it."""
    try:
        said = json.loads(files("llama_cpp.hostwheel").joinpath("build-info.json").read_text())
    except ModuleNotFoundError:
        system = import_module("llama_cpp").llama_print_system_info()
        return {"commit": None, "system": system.decode().strip()}
    return {
        "commit": said["source"]["llama_cpp_commit"],
        "label": said["label"],
        "plan": said["plan_hash"],
        "compiler": said["compiler"],
    }


def reasons(report: Report) -> Iterator[tuple[str, str]]:
    for weights in dict.fromkeys(row.gguf.weights for row in report.compared):
        if weights != "unknown":
            yield f"{weights} weights", WHY_WEIGHTS.get(weights, WHY_BLOCKS)
    yield from WHY_SETTINGS.items()


def show(report: Report, console: Console) -> None:
    console.print(Text(f"{report.source.name} in transformers, float32, CPU", style="bold"))
    console.print(Text(f"{len(report.prompts)} prompts; |Δ log p|; largest and mean over the"))
    console.print(Text("vocabulary, then over the labels\n"))
    for name in dict.fromkeys(row.gguf.path.name for row in report.compared):
        rows = [row for row in report.compared if row.gguf.path.name == name]
        console.print(Text(f"{name} ({rows[0].gguf.weights})", style="bold"))
        console.print(table(rows, len(report.prompts)))
    console.print(Text(f"\nChat template: {TEMPLATES[report.same_template]}."))
    for what, why in reasons(report):
        console.print(Text(f"{what}: {why}."))


def table(rows: Sequence[Compared], prompts: int) -> Table:
    """At most 76 columns wide."""
    made = Table(box=None, pad_edge=False)
    made.add_column("settings", min_width=25)
    for heading in ("argmax", "largest", "mean", "labels", "mean"):
        made.add_column(heading, justify="right", min_width=7)
    for row in rows:
        found = row.agreement
        figures = (*numbers(found.vocabulary), *numbers(found.labels))
        made.add_row(row.settings, f"{found.argmax}/{prompts}", *figures)
    return made


def numbers(of: Difference) -> tuple[str, str]:
    return f"{of.largest:.1e}", f"{of.mean:.1e}"
