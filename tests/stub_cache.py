"""The stand-in's KV cache and pointers: what tells a wrong position, or a freed thing, at once."""

import hashlib
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

N_VOCAB = 258


def logits_after(tokens: Sequence[int]) -> NDArray[np.float32]:
    seed = hashlib.sha256(repr(tuple(tokens)).encode()).digest()
    generator = np.random.default_rng(int.from_bytes(seed[:8], "little"))
    return generator.normal(size=N_VOCAB).astype(np.float32)


class Cache:
    """Cells of (position, token), each in one sequence or more."""

    def __init__(self, size: int, sequences: int) -> None:
        self.size, self.sequences = size, sequences
        self.cells: list[tuple[int, int, set[int]]] = []

    def sequence(self, number: int) -> list[int]:
        cells = sorted((at, token) for at, token, held in self.cells if number in held)
        assert [at for at, _ in cells] == list(range(len(cells)))
        return [token for _, token in cells]

    def add(self, token: int, position: int, number: int) -> bool:
        """Whether the position goes on from what the sequence holds."""
        if not 0 <= number < self.sequences or position != len(self.sequence(number)):
            return False
        self.cells.append((position, token, {number}))
        return True

    def remove(self, number: int, start: int) -> None:
        for at, _, held in self.cells:
            if at >= start:
                held.discard(number)
        self.cells = [cell for cell in self.cells if cell[2]]


class Pointer:
    """A model, vocabulary or context; false once it is freed."""

    def __init__(self, **content: Any) -> None:
        self.freed = False
        self.content = SimpleNamespace(**content)

    def use(self) -> Any:
        assert not self.freed, "used after it was freed"
        return self.content
