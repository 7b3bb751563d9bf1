"""The other engine: transformers, in float32, on the CPU. torch is imported here alone."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from hostwheel.errors import BadInput, MachineLacks
from hostwheel.readout.decoder import Row
from hostwheel.readout.parity_files import Source

NEEDED = ("torch", "transformers", "accelerate", "gguf", "psutil")

# Bytes for a parameter at the peak, measured with transformers 5.24: a folder in float32 takes 5.1,
# and comes in another type first; a GGUF is made into float32 tensors, which are copied into the
# model (SmolLM2 10.3, Gemma 3 270M 11.4).
FOLDER_BYTES = 8
GGUF_BYTES = 12


def check_packages() -> None:
    """Raises MachineLacks, with how to get them, where transformers and what it needs is not."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise MachineLacks(
            f"the comparison needs {', '.join(missing)} in the environment of {sys.executable}: "
            "pip install 'hostwheel[parity]' (where the index has no CPU build of torch, that "
            "brings several GB of CUDA; PIP_EXTRA_INDEX_URL can name one that has)"
        )


def check_memory(source: Source, parameters: int) -> None:
    """Raises MachineLacks before a model in float32 would exhaust the memory."""
    needed = parameters * (GGUF_BYTES if source.file else FOLDER_BYTES)
    available = int(import_module("psutil").virtual_memory().available)
    if needed > available:
        raise MachineLacks(
            f"{source.name} has {parameters:,} parameters: reading it in float32 takes about "
            f"{needed / 2**30:.1f} GiB of memory, and {available / 2**30:.1f} GiB are available; "
            "close other programs, or compare on a larger machine"
        )


class Reference:
    """Tokens and rows by transformers."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._arguments: Mapping[str, Any] = {
            "local_files_only": True,
            **({"gguf_file": source.file} if source.file else {}),
        }
        transformers = import_module("transformers")
        transformers.utils.logging.disable_progress_bar()
        transformers.utils.logging.set_verbosity_error()
        with self._reading():
            self.tokenizer = self._read(transformers.AutoTokenizer)

    def rows(self, prompts: Sequence[Sequence[int]]) -> Iterator[Row]:
        """For each prompt's tokens the log-softmax of the last position: (n_vocab,) float64."""
        torch = import_module("torch")
        with self._reading():
            model = self._read(
                import_module("transformers").AutoModelForCausalLM, dtype=torch.float32
            )
        for tokens in prompts:
            ids = torch.tensor([list(tokens)])
            with torch.inference_mode():
                logits = model(input_ids=ids, use_cache=False, logits_to_keep=1).logits[0, -1]
            yield np.asarray(torch.log_softmax(logits.double(), dim=-1).numpy())

    def _read(self, kind: Any, **arguments: Any) -> Any:
        return kind.from_pretrained(str(self._source.folder), **self._arguments, **arguments)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # a damaged file can raise anything in there
            raise BadInput(
                f"transformers cannot read {self._source.name}: {error}; give --model a folder as "
                "save_pretrained writes it, or a GGUF of an architecture that transformers knows"
            ) from error
