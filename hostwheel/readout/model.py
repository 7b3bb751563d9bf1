"""A loaded model with a context to decode in: our own, or somebody else's `Llama`, borrowed.

Both give pointers, and raise RuntimeError instead of a dangling one.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol
from weakref import finalize

from hostwheel.readout.gguf_file import load_llama
from hostwheel.readout.settings import checked_settings

SEQUENCES = 32  # texts decoded side by side, and one more for what they share


class Model(Protocol):
    """What the readout needs of a model. `rest` leaves it as its owner expects it."""

    def model(self) -> Any: ...
    def context(self) -> Any: ...
    def rest(self) -> None: ...
    def close(self) -> None: ...


class BorrowedModel:
    """A `Llama` made elsewhere. Its context is used as it is, and never closed here."""

    def __init__(self, llama: Any) -> None:
        if not hasattr(llama, "ctx"):
            raise ValueError(f"llm= takes a llama_cpp.Llama, not {type(llama).__name__}")
        self._llama = llama
        self.model()
        if llama.context_params.embeddings or llama.model_params.vocab_only:
            raise ValueError(
                "llm= was made with embedding=True or vocab_only=True: it has no logits"
            )

    def model(self) -> Any:
        return _alive(self._llama.model)

    def context(self) -> Any:
        return _alive(self._llama.ctx)

    def rest(self) -> None:
        self._llama.reset()

    def close(self) -> None:
        """Nothing: its owner closes it."""


class OwnModel:
    """A GGUF file loaded here, with a context for many sequences in one KV cache.

    `Llama` can only make a context for one sequence. So it loads the model beside the smallest
    context that it can have, and the real one is made from the same parameters.
    """

    def __init__(self, lib: Any, path: str, settings: Mapping[str, Any]) -> None:
        wanted = checked_settings(settings)
        self._llama = load_llama(path, **{**wanted, "n_ctx": 1})
        params = self._llama.context_params
        params.n_ctx = wanted["n_ctx"] or lib.llama_model_n_ctx_train(self.model())
        params.n_batch = min(params.n_ctx, wanted["n_batch"])
        params.n_ubatch = min(params.n_batch, wanted["n_ubatch"])
        # A recurrent state is large, and there is one for each sequence.
        params.n_seq_max = 1 if keeps_a_state(lib, self.model()) else SEQUENCES + 1
        params.kv_unified = True  # one pool of cells, in which sequences share those of a prefix
        if hasattr(params, "n_outputs_max"):  # since 2026; without it, room for n_batch rows
            params.n_outputs_max = params.n_seq_max
        self._context = lib.llama_init_from_model(self.model(), params)
        if not self._context:
            self._llama.close()
            raise RuntimeError(f"llama.cpp made no context of {params.n_ctx} tokens for {path}")
        # The context goes before the model, also where nobody calls close().
        self._free = finalize(self, _free, lib, self._context, self._llama)

    def model(self) -> Any:
        return _alive(self._llama.model)

    def context(self) -> Any:
        return _alive(self._context)

    def rest(self) -> None:
        """Nothing: nobody else uses it."""

    def close(self) -> None:
        self._context = None
        self._free()


def keeps_a_state(lib: Any, model: Any) -> bool:
    """Whether a model carries a state from token to token, instead of looking back at each."""
    return bool(lib.llama_model_is_recurrent(model) or lib.llama_model_is_hybrid(model))


def _free(lib: Any, context: Any, llama: Any) -> None:
    lib.llama_free(context)
    llama.close()


def _alive(pointer: Any) -> Any:
    if not pointer:
        raise RuntimeError("the model is closed")
    return pointer


def load_model(
    lib: Any, model_path: str | os.PathLike[str] | None, llm: Any, settings: Mapping[str, Any]
) -> Model:
    """Our own model of a file, or the one that is lent. Raises ValueError."""
    model = BorrowedModel(llm) if model_path is None else _load(lib, model_path, settings)
    if lib.llama_model_has_encoder(model.model()) or not lib.llama_model_has_decoder(model.model()):
        model.close()
        raise ValueError("this model has no plain decoder, and so no next token to read")
    return model


def _load(lib: Any, model_path: str | os.PathLike[str], settings: Mapping[str, Any]) -> OwnModel:
    path = os.fspath(model_path)
    if not Path(path).is_file():
        raise ValueError(f"there is no model file {path}")
    return OwnModel(lib, path, settings)
