"""How far the engine's logits may be from the exact ones, and the engine asked for them.

The engine rounds the inputs of every matrix product to the format that goes with the weights, and
the exact pass does not. How much that is follows from the format, relative to the size (root mean
square) of the inputs:

* F16 and BF16 keep 11 and 8 bits of a number: errors up to 2^-12 and 2^-9 of it.
* Q8_0, Q8_1 and Q8_K round to steps of amax/127 of a block of 32, or 256 for Q8_K. Such errors are
  spread evenly, so their size is step/sqrt(12) = amax/440. Of 32 normal numbers the largest is 2.4
  sizes on average, of 256, scaled by the norm's weights, 3.5: 0.0055 and 0.008.
* F32 rounds the sums instead: 256 terms, 2^-25 each, added as squares: 16 * 2^-25.

In a dot product with random weights independent errors stay as large as they were, relative to
the result. Fifteen products lie on the way to the logits, most of them beside the residual stream;
their errors add as squares, and SwiGLU's product (of 7 sizes at most) and attention's exponential
make them larger. Computed with inputs rounded in numpy, logits are off by 2.5 times the error of
one product, for both block sizes; GROWTH is twice that.

The KV cache adds its own rounding, which reaches the logits by way of two products, scores and
values, in each of two layers: CACHE_GROWTH is sqrt(4) and a quarter. With F16, FlashAttention also
sums the values in F16: a sum that grows as a random walk does, each step rounded by 2^-12, ends
with 2^-12 * sqrt(tokens / 2).

Measured on AVX2, largest of all settings, with the F32 cache: F32 1.2e-6, F16 4.7e-4, BF16 4.1e-3,
Q8_0 to Q5_1 1.7e-2, Q2_K to IQ4_XS 2.4e-2; caches alone, with F32 weights: F16 2.3e-3, Q8_0 4.1e-3,
and 8.3e-3 after nine tokens, where attention averages over less.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import hypot, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smoke.installed import Installed

Row = NDArray[np.float64]

TOKENS = 520  # of the prompt: each batch size leaves a rest but 1
PROMPT: tuple[int, ...] = tuple(np.random.default_rng(1).integers(3, 32000, TOKENS).tolist())

# The relative error of one product's rounded inputs, by the type of its weights.
Q8_0, Q8_K = 0.0055, 0.008
ROUNDING = {
    "F32": 16 * 2**-25,
    "F16": 2**-12,
    "BF16": 2**-9,
    **dict.fromkeys(("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"), Q8_0),
    **dict.fromkeys(("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS"), Q8_K),
}
CACHE_ROUNDING = {"F32": 0.0, "F16": 2**-12 * sqrt(TOKENS / 2), "Q8_0": Q8_0}
GROWTH, CACHE_GROWTH = 5.0, 2.5
WORST = 5.5  # times the size of the error: one in 32,000 normal numbers is 4.2


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """How a prompt is decoded: in chunks of `batch` tokens, with a KV cache of type `kv`."""

    batch: int
    kv: str
    threads: int = 1
    flash: bool = True

    def __str__(self) -> str:
        attention = "FlashAttention" if self.flash else "plain attention"
        return f"batch {self.batch}, {self.kv} cache, {attention}, threads {self.threads}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """A prompt for a model whose matrices are all of type `kind`, `repacked` where ggml can."""

    kind: str
    repacked: bool
    model: Path
    tokens: Sequence[int]
    settings: Sequence[Setting]

    def name(self, setting: Setting) -> str:
        return f"{self.kind}, {'repacked' if self.repacked else 'plain'}, {setting}"

    def as_json(self) -> Mapping[str, Any]:
        settings = [{"name": self.name(setting), **asdict(setting)} for setting in self.settings]
        return {
            "model": str(self.model),
            "extra": self.repacked,
            "tokens": self.tokens,
            "settings": settings,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """Logits after the last token of each prompt by `Task.name`, and what llama.cpp said."""

    rows: Mapping[str, NDArray[np.float32]]
    said: str


def ask(
    installed: Installed,
    folder: Path,
    tasks: Sequence[Task],
    wrap: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> Answer:
    """Compute in one child process. Raises RuntimeError with its last words where it dies."""
    asked, out = folder / "tasks.json", folder / "rows.npz"
    asked.write_text(json.dumps([task.as_json() for task in tasks]))
    engine = Path(__file__).with_name("engine.py")
    done = installed.run("python", engine, asked, out, wrap=wrap, env=env)
    if done.returncode:
        raise RuntimeError(f"exit status {done.returncode}: {done.stderr[-2000:]}")
    with np.load(out) as rows:
        return Answer(rows=dict(rows), said=done.stderr)


def faults(task: Task, answer: Answer, exact: Row) -> Iterator[str]:
    """A line for each setting whose logits are further from `exact` than rounding explains.

    In all (root mean square), where a kernel is wrong, or in one (the largest), where it is wrong
    for a few rows. Both relative to how far the exact logits are spread.
    """
    for setting in task.settings:
        allowed = bound(task.kind, setting.kv)
        errors = np.abs(answer.rows[task.name(setting)] - exact) / exact.std()
        size, worst = float(np.sqrt(np.mean(errors**2))), float(errors.max())
        if not (size <= allowed and worst <= WORST * allowed):  # true for NaN, too
            yield (
                f"{task.name(setting)}: logits are off by {size:.2g} of their spread, one by"
                f" {worst:.2g}; rounding explains {allowed:.2g} and {WORST * allowed:.2g}"
            )


def bound(kind: str, kv: str) -> float:
    """The largest error of logits that rounding explains, relative to their spread."""
    return hypot(GROWTH * ROUNDING[kind], CACHE_GROWTH * CACHE_ROUNDING[kv])
