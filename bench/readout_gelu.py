"""Why Gemma 3 differs by 1e-2 with F32 everywhere: ggml looks GELU up in a table of F16.

python bench/readout_gelu.py FOLDER > bench/parity_gelu.json

FOLDER is what bench/readout_models.py made. transformers gets such a table as well. Then it agrees
with itself in float64 as badly as llama.cpp does with it: a table turns the last bit of a float32
into an error of 2^-11, and the next layer does it again.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from hostwheel.readout.decoder import Row
from hostwheel.readout.parity import agreement
from hostwheel.readout.parity_files import find_source, read_gguf
from hostwheel.readout.parity_reference import Reference
from hostwheel.readout.parity_report import versions
from hostwheel.readout.parity_run import Prompt, llama_rows, make_prompts
from hostwheel.readout.questions import QUESTIONS

torch: Any = import_module("torch")
transformers: Any = import_module("transformers")
ASKED = QUESTIONS[5:9]


def main(path: Path) -> None:
    gguf = read_gguf(path)
    tokenizer = Reference(find_source(path)).tokenizer
    prompts = make_prompts(gguf, ASKED, tokenizer)
    llama = llama_rows(gguf, "F32 cache", prompts, tokenizer)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32
    )
    exact, table = list(rows(model, prompts)), list(rows(with_table(model), prompts))
    wide_table, wide_exact = (
        list(rows(model.double(), prompts)),
        list(rows(exactly(model), prompts)),
    )
    labels = [prompt.labels for prompt in prompts]
    pairs = {
        "llama.cpp, transformers": (llama, exact),
        "llama.cpp, transformers with the table": (llama, table),
        "transformers with the table: float32, float64": (table, wide_table),
        "transformers: float32, float64": (exact, wide_exact),
    }
    found = {name: asdict(agreement(labels, *pair).vocabulary) for name, pair in pairs.items()}
    print(
        json.dumps(
            {
                "command": "python bench/readout_gelu.py FOLDER",
                "model": path.name,
                "prompts": len(prompts),
                "versions": versions(),
                "difference over the vocabulary": found,
            },
            indent=1,
        )
    )


def rows(model: Any, prompts: Sequence[Prompt]) -> Iterator[Row]:
    for prompt in prompts:
        ids = torch.tensor([prompt.tokens])
        with torch.inference_mode():
            logits = model(input_ids=ids, use_cache=False, logits_to_keep=1).logits[0, -1]
        yield torch.log_softmax(logits.double(), dim=-1).numpy()


def with_table(model: Any) -> Any:
    """GELU from and to F16 between -10 and 10, as `ggml_vec_geglu_f32` has it."""

    def looked_up(x: Any) -> Any:
        half = torch.nn.functional.gelu(x.half().float(), approximate="tanh").half()
        return torch.where(x <= -10, 0.0, torch.where(x >= 10, x, half.to(x.dtype)))

    return activated(model, looked_up)


def exactly(model: Any) -> Any:
    return activated(model, lambda x: torch.nn.functional.gelu(x, approximate="tanh"))


def activated(model: Any, function: Any) -> Any:
    for layer in model.model.layers:
        del layer.mlp.act_fn  # a module, which only a module may replace
        layer.mlp.act_fn = function
    return model


if __name__ == "__main__":
    main(Path(sys.argv[1]) / "gemma-3-270m.F32.gguf")
