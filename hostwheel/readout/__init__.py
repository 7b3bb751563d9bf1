"""Next-token log-probabilities from a GGUF model, over the whole vocabulary, with nothing sampled.

`LlamaCppBackend` is what anyjev calls a backend, and works without it. The engine is whatever
`llama_cpp` is installed; numpy comes with it.
"""

from hostwheel.readout.agreement import TokenMismatchError
from hostwheel.readout.backend import LlamaCppBackend
from hostwheel.readout.tokenizer import GGUFTokenizer

__all__ = ["GGUFTokenizer", "LlamaCppBackend", "TokenMismatchError"]
