"""How far two computations of the same logits are apart."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

# Of the logits' spread, at most, for two right ways of computing. On one CPU FlashAttention with
# an F16 cache and plain attention with F32 are up to 0.09 apart, since activations are rounded to
# 8 bits here and there; a wrong kernel is off by about 1.
TWO_RIGHT_WAYS = 0.25


def apart(one: NDArray[Any], other: NDArray[Any]) -> float:
    """The largest difference, as part of the spread (standard deviation) of `other`."""
    return float(np.abs(one - other).max() / np.std(other))
