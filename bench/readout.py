"""How fast the readout is, beside transformers in float32 on the same CPU, threads and weights.

python bench/readout.py FOLDER > bench/readout.json

FOLDER is what bench/readout_models.py made; the environment has hostwheel[parity] and anyjev, whose
HFBackend is transformers with and without sharing of prefixes. Contenders take turns, and what is
given is the median of PAIRS turns. Q4_1 is what the registry has; the others are made from it.
ggml's threads wait for one another by spinning: on a busy machine CPU-seconds grow as wall time.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from hostwheel.facts.cpuid import Cpu
from hostwheel.readout import LlamaCppBackend
from hostwheel.readout.parity_report import versions
from hostwheel.readout.parity_run import SETTINGS

HFBackend: Any = import_module("anyjev.backends.hf").HFBackend
PAIRS = 3
NAME = "SmolLM2-135M-Instruct"
PREFIX_TOKENS = 600
OPTIONS = ("a poem", "a log", "a recipe", "a letter")
DAYS = (f"Day {day}: {3 * day % 11} ships came in, the tide was high." for day in range(1, 100))
SHORT = tuple(f"Is {number} an even number? Answer with Yes or No only." for number in range(64))


def main(folder: Path) -> None:
    exact, small = (folder / f"{NAME}.{kind}.gguf" for kind in ("F32", "Q4_1"))
    with (
        LlamaCppBackend(exact, n_ctx=2048) as ours,
        LlamaCppBackend(small, n_ctx=2048) as quantized,
    ):
        theirs = HFBackend(str(folder / NAME), device="cpu", dtype="float32")
        prefix, suffixes = permuted(ours.gguf_tokenizer)
        labels = label_ids(ours.gguf_tokenizer, ("A", "B", "C", "D"))
        group = (prefix, suffixes)
        shared = timed(
            {
                **contenders(ours, theirs, group, labels),
                "score_shared, Q4_1": lambda: quantized.score_shared([group], [labels]),
            }
        )
        batch = timed(batches(ours, theirs, label_ids(ours.gguf_tokenizer, ("Yes", "No"))))
        tokens = [length(ours.gguf_tokenizer, text) for text in (prefix, suffixes[0])]
    print(
        json.dumps(
            {
                "command": "python bench/readout.py FOLDER",
                "model": exact.name,
                "cpu": Cpu().brand,
                "cores": len(os.sched_getaffinity(0)),
                "load_average": os.getloadavg()[0],
                "turns": PAIRS,
                "versions": versions(),
                "ten permutations": {"prefix, suffix tokens": tokens, **shared},
                "64 short prompts": batch,
                "shared against plain, largest difference of log p": bounds(
                    folder, (prefix, suffixes[:2])
                ),
                "peak memory, MiB": {kind: peak(kind, folder) for kind in ("ours", "theirs")},
            },
            indent=1,
        )
    )


def permuted(tokenizer: Any) -> tuple[str, list[str]]:
    """A prefix of PREFIX_TOKENS tokens or a few more, and ten orders of the options after it."""
    log = "A harbour log."
    while length(tokenizer, render(tokenizer, log, "")[0]) < PREFIX_TOKENS:
        log = f"{log} {next(DAYS)}"
    orders = list(permutations(OPTIONS))[:10]
    lists = [
        "".join(f"{at}. {what}\n" for at, what in zip("ABCD", each, strict=True)) for each in orders
    ]
    parts = [render(tokenizer, log, listed) for listed in lists]
    return parts[0][0], [suffix for _, suffix in parts]


def render(tokenizer: Any, log: str, listed: str) -> tuple[str, str]:
    head = f"{log}\nWhat is this text?\n"
    message = f"{head}{listed}Answer with the letter only."
    text = str(
        tokenizer.apply_chat_template(
            [{"role": "user", "content": message}], tokenize=False, add_generation_prompt=True
        )
    )
    cut = text.index(head) + len(head)
    return text[:cut], text[cut:]


def length(tokenizer: Any, text: str) -> int:
    return len(tokenizer.encode(text, add_special_tokens=False))


def label_ids(tokenizer: Any, labels: Sequence[str]) -> list[int]:
    return [tokenizer.encode(label, add_special_tokens=False)[-1] for label in labels]


Contenders = Mapping[str, Callable[[], Any]]


def contenders(
    ours: LlamaCppBackend, theirs: Any, group: tuple[str, list[str]], ids: list[int]
) -> Contenders:
    texts = [group[0] + suffix for suffix in group[1]]
    many = [ids] * len(texts)
    return {
        "score_shared": lambda: ours.score_shared([group], [ids]),
        "plain": lambda: ours.next_token_logprobs(texts, many),
        "transformers": lambda: theirs.next_token_logprobs(texts, many),
        "transformers, shared prefix": lambda: theirs.score_shared([group], [ids]),
    }


def batches(ours: LlamaCppBackend, theirs: Any, ids: list[int]) -> Contenders:
    tokenizer = ours.gguf_tokenizer
    texts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
        )
        for text in SHORT
    ]
    many = [ids] * len(texts)
    return {
        "plain": lambda: ours.next_token_logprobs(texts, many),
        "transformers": lambda: theirs.next_token_logprobs(texts, many),
    }


def timed(of: Contenders) -> dict[str, Any]:
    """Medians of wall and CPU seconds, and how often the first one's time each takes."""
    for run in of.values():
        run()
    turns = [{name: once(name, run) for name, run in of.items()} for _ in range(PAIRS)]
    first = next(iter(of))
    return {
        name: {
            "wall_s": statistics.median(turn[name][0] for turn in turns),
            "cpu_s": statistics.median(turn[name][1] for turn in turns),
            f"times {first}": statistics.median(turn[name][0] / turn[first][0] for turn in turns),
        }
        for name in of
    }


def once(name: str, run: Callable[[], Any]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    took = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{name}: {took[0]:.1f} s, {took[1]:.1f} CPU-s", file=sys.stderr, flush=True)
    return took


def bounds(folder: Path, group: tuple[str, list[str]]) -> dict[str, float]:
    """Over the whole vocabulary, for each format and setting."""
    return {
        f"{kind}, {settings}": apart(folder / f"{NAME}.{kind}.gguf", settings, group)
        for kind in ("F32", "F16", "Q8_0")
        for settings in SETTINGS
    }


def apart(gguf: Path, settings: str, group: tuple[str, list[str]]) -> float:
    with LlamaCppBackend(gguf, n_ctx=2048, **SETTINGS[settings]) as backend:
        (shared,) = backend.score_shared([group], [range(backend.n_vocab)])
        plain = backend.next_token_distributions([group[0] + suffix for suffix in group[1]])
    pairs = zip(shared, plain, strict=True)
    return max(float(np.abs(one - other).max()) for one, other in pairs)


def peak(kind: str, folder: Path) -> int:
    """Of a process that does the ten permutations once."""
    argv = (sys.executable, __file__, folder, kind)
    return int(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)


def alone(folder: Path, kind: str) -> None:
    if kind == "ours":
        with LlamaCppBackend(folder / f"{NAME}.F32.gguf", n_ctx=2048) as ours:
            ours.score_shared([permuted(ours.gguf_tokenizer)], [[1, 2]])
    else:
        theirs = HFBackend(str(folder / NAME), device="cpu", dtype="float32")
        theirs.score_shared([permuted(theirs.tokenizer)], [[1, 2]])
    # Not getrusage: its figure survives exec, so a child starts with its parent's.
    (line,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    print(int(line) // 1024)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        main(Path(sys.argv[1]))
    else:
        alone(Path(sys.argv[1]), sys.argv[2])
