"""Decoding: which token goes to which position of which sequence, and the rows read back."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hostwheel.readout.model import Model, keeps_a_state
from hostwheel.readout.share import Tokens, waves

Row = NDArray[np.float64]
TRUNK = 0  # the sequence that holds a shared prefix


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One token to decode, and whether the distribution after it is read."""

    token: int
    position: int
    sequence: int
    wanted: bool


def text_cells(tokens: Tokens, *, start: int, sequence: int, wanted: bool) -> list[Cell]:
    """Consecutive cells from position `start` on; only the last one can be wanted."""
    last = len(tokens) - 1
    return [
        Cell(token=token, position=start + at, sequence=sequence, wanted=wanted and at == last)
        for at, token in enumerate(tokens)
    ]


class Decoder:
    """Fills one context's KV cache and reads log-softmax rows. Not for two threads at once."""

    def __init__(self, lib: Any, model: Model, n_vocab: int) -> None:
        self._lib = lib
        self._model = model
        self._n_vocab = n_vocab
        context = model.context()
        self.n_ctx = int(lib.llama_n_ctx(context))
        self.n_batch = int(lib.llama_n_batch(context))
        self.sequences = int(lib.llama_n_seq_max(context))

    def can_branch(self) -> bool:
        """Whether texts may go on from a prefix in the cache.

        With many sequences always. With one the cache is rolled back instead, and a recurrent
        state, or a sliding window that forgot its begin, cannot be.
        """
        if self.sequences > 1:
            return True
        model = self._model.model()
        return not (keeps_a_state(self._lib, model) or self._lib.llama_model_n_swa(model))

    def rows(self, prefix: Tokens, texts: Sequence[Tokens]) -> Iterator[Row]:
        """For each text the log-softmax after prefix + text: (n_vocab,) float64, natural log.

        Each text has a token at least. Raises RuntimeError when llama.cpp fails.
        """
        with self._cleared():
            for _ in self._decode(text_cells(prefix, start=0, sequence=TRUNK, wanted=False)):
                raise AssertionError("nothing of the prefix is wanted")
            lengths = [len(text) for text in texts]
            side_by_side = max(self.sequences - 1, 1)
            cells = self.n_ctx - len(prefix)
            for wave in waves(lengths, cells=cells, sequences=side_by_side):
                yield from self._wave(prefix, [texts[at] for at in wave])

    def _wave(self, prefix: Tokens, texts: Sequence[Tokens]) -> Iterator[Row]:
        memory = self._lib.llama_get_memory(self._model.context())
        sequences = range(1, len(texts) + 1) if self.sequences > 1 else (TRUNK,)
        cells: list[Cell] = []
        for sequence, text in zip(sequences, texts, strict=True):
            if sequence != TRUNK and prefix:
                self._lib.llama_memory_seq_cp(memory, TRUNK, sequence, -1, -1)
            cells += text_cells(text, start=len(prefix), sequence=sequence, wanted=True)
        yield from self._decode(cells)
        for sequence in sequences:
            start = len(prefix) if sequence == TRUNK else -1
            if not self._lib.llama_memory_seq_rm(memory, sequence, start, -1):
                raise RuntimeError(f"llama.cpp did not remove sequence {sequence} from its cache")

    @contextmanager
    def _cleared(self) -> Iterator[None]:
        """An empty cache before and after. Only its book-keeping is cleared, not its memory."""
        self._model.rest()
        self._clear()
        try:
            yield
        finally:
            self._clear()
            self._model.rest()

    def _clear(self) -> None:
        memory = self._lib.llama_get_memory(self._model.context())
        self._lib.llama_memory_clear(memory, False)

    def _decode(self, cells: Sequence[Cell]) -> Iterator[Row]:
        batch = self._lib.llama_batch_init(self.n_batch, 0, 1)
        try:
            for start in range(0, len(cells), self.n_batch):
                chunk = cells[start : start + self.n_batch]
                fill(batch, chunk)
                self._run(batch)
                yield from (self._row(at) for at, cell in enumerate(chunk) if cell.wanted)
        finally:
            self._lib.llama_batch_free(batch)

    def _run(self, batch: Any) -> None:
        code = self._lib.llama_decode(self._model.context(), batch)
        if code:
            reason = "the KV cache is full" if code == 1 else "see its messages (verbose=True)"
            raise RuntimeError(
                f"llama_decode returned {code} for {batch.n_tokens} tokens: {reason}"
            )

    def _row(self, at: int) -> Row:
        pointer = self._lib.llama_get_logits_ith(self._model.context(), at)
        if not pointer:
            raise RuntimeError(f"llama.cpp kept no logits for token {at} of the batch")
        logits = np.ctypeslib.as_array(pointer, shape=(self._n_vocab,))
        return log_softmax(logits.astype(np.float64))


def fill(batch: Any, cells: Sequence[Cell]) -> None:
    """Write cells into a `llama_batch` of one sequence for each token."""
    batch.n_tokens = len(cells)
    for at, cell in enumerate(cells):
        batch.token[at] = cell.token
        batch.pos[at] = cell.position
        batch.n_seq_id[at] = 1
        batch.seq_id[at][0] = cell.sequence
        batch.logits[at] = cell.wanted


def log_softmax(logits: Row) -> Row:
    """Natural logarithms of probabilities; a logit of -inf is a token that cannot come.

    Raises RuntimeError where a logit is NaN or +inf, or all are -inf.
    """
    largest = logits.max()  # NaN where there is one
    if not np.isfinite(largest):
        raise RuntimeError(
            "the model gave logits without a softmax: one is NaN or +inf, or all are -inf"
        )
    shifted = logits - largest
    return np.asarray(shifted - np.log(np.exp(shifted).sum()))
