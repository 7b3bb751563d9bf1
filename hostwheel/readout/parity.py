"""A GGUF's log-probabilities held against those of another engine: the arithmetic.

Pure: rows of shape (n_vocab,), natural logarithms, in; numbers out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hostwheel.readout.decoder import Row


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """Absolute differences of log-probabilities, natural logarithms."""

    largest: float
    mean: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """How far two engines agree. `by_prompt` has the largest difference of each prompt."""

    argmax: int
    vocabulary: Difference
    labels: Difference
    by_prompt: tuple[float, ...]


def agreement(
    labels: Sequence[Sequence[int]], ours: Sequence[Row], theirs: Sequence[Row]
) -> Agreement:
    """Compare the rows of each prompt, over the vocabulary and at the token ids of its labels.

    `argmax` counts the prompts for which both hold the same token likeliest.
    """
    apart = [distances(a, b) for a, b in zip(ours, theirs, strict=True)]
    return Agreement(
        argmax=sum(int(a.argmax() == b.argmax()) for a, b in zip(ours, theirs, strict=True)),
        vocabulary=difference(apart),
        labels=difference([row[list(ids)] for ids, row in zip(labels, apart, strict=True)]),
        by_prompt=tuple(float(row.max()) for row in apart),
    )


def distances(ours: Row, theirs: Row) -> Row:
    """|a - b|, and 0 where both are -inf: a token that neither engine can give."""
    apart = np.zeros_like(ours)
    np.subtract(ours, theirs, out=apart, where=ours != theirs)
    return np.abs(apart)


def difference(apart: Sequence[Row]) -> Difference:
    every = np.concatenate(apart)
    return Difference(largest=float(every.max()), mean=float(every.mean()))
