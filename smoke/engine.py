"""`python engine.py TASKS OUT`, with the installed wheel's Python: logits of many settings.

TASKS is a JSON list of `{"model": path, "extra": bool, "tokens": [...], "settings": [...]}`; a
setting has `name`, `batch`, `threads`, `kv` ("F32", …) and `flash`. OUT becomes an .npz: for each
name the logits after the last token, (pieces,) float32, or nothing where llama.cpp refused to
make the context. What llama.cpp says goes to stderr.

Alone in its file, and free of hostwheel: it runs on emulated CPUs, beside llama_cpp and numpy.
"""

import ctypes
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

CACHES = {"F32": 0, "F16": 1, "Q8_0": 8}  # enum ggml_type


def computed(lib: Any, task: Mapping[str, Any]) -> Iterator[tuple[str, NDArray[np.float32]]]:
    params = lib.llama_model_default_params()
    params.use_extra_bufts = task["extra"]
    params.n_gpu_layers = 0
    model = lib.llama_model_load_from_file(task["model"].encode(), params)
    if not model:
        raise RuntimeError(f"llama.cpp does not load {task['model']}")
    for setting in task["settings"]:
        context = lib.llama_init_from_model(model, context_params(lib, setting))
        if context:
            yield setting["name"], last_logits(lib, model, context, setting, task["tokens"])
            lib.llama_free(context)
    lib.llama_model_free(model)


def context_params(lib: Any, setting: Mapping[str, Any]) -> Any:
    params = lib.llama_context_default_params()
    params.n_ctx = 1024
    params.n_batch = params.n_ubatch = setting["batch"]
    params.n_threads = params.n_threads_batch = setting["threads"]
    params.type_k = params.type_v = CACHES[setting["kv"]]
    params.flash_attn_type = int(setting["flash"])
    return params


def last_logits(
    lib: Any, model: Any, context: Any, setting: Mapping[str, Any], tokens: Sequence[int]
) -> NDArray[np.float32]:
    size = setting["batch"]
    batch = lib.llama_batch_init(size, 0, 1)
    for start in range(0, len(tokens), size):
        fill(batch, tokens, range(start, min(start + size, len(tokens))))
        if code := lib.llama_decode(context, batch):
            raise RuntimeError(f"llama_decode returned {code} for {setting}")
    lib.llama_batch_free(batch)
    pieces = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
    row = lib.llama_get_logits_ith(context, -1)
    return np.ctypeslib.as_array(row, shape=(pieces,)).copy()


def fill(batch: Any, tokens: Sequence[int], positions: range) -> None:
    """One chunk of the prompt. Logits are wanted after the last token alone."""
    batch.n_tokens = len(positions)
    for at, position in enumerate(positions):
        batch.token[at], batch.pos[at] = tokens[position], position
        batch.n_seq_id[at], batch.seq_id[at][0] = 1, 0
        batch.logits[at] = position == len(tokens) - 1


def tell(_level: int, text: bytes, _data: Any) -> None:
    sys.stderr.write(text.decode(errors="replace"))


def main(tasks: str, out: str) -> None:
    lib = import_module("llama_cpp.llama_cpp")
    callback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(tell)
    lib.llama_log_set(callback, None)
    rows: dict[str, Any] = {}
    for task in json.loads(Path(tasks).read_text()):
        rows.update(computed(lib, task))
    np.savez(out, **rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
