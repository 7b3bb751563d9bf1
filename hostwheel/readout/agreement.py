"""Two tokenizers that must mean the same: the GGUF's own, and one that was passed."""

import os
from collections.abc import Sequence
from typing import Any

from hostwheel.errors import Refused
from hostwheel.readout.library import package
from hostwheel.readout.vocabulary import Vocabulary


class TokenMismatchError(Refused):
    """The tokenizer that was passed and the GGUF's vocabulary differ where they must not."""


def load_tokenizer(tokenizer: Any) -> Any:
    """A tokenizer object as it is; a name or path through transformers' AutoTokenizer.

    Raises ValueError for an object that cannot encode and decode.
    """
    if isinstance(tokenizer, str | os.PathLike):
        return package("transformers").AutoTokenizer.from_pretrained(os.fspath(tokenizer))
    missing = [name for name in ("encode", "decode") if not hasattr(tokenizer, name)]
    if missing:
        raise ValueError(
            f"tokenizer= is a name, a folder or a tokenizer of Hugging Face's kind; "
            f"{type(tokenizer).__name__} has no {' and no '.join(missing)}"
        )
    return tokenizer


def check_prompt(prompt: str, theirs: Sequence[int], ours: Sequence[int]) -> None:
    """Refuse a prompt that the two cut differently."""
    if tuple(theirs) == tuple(ours):
        return
    pairs = zip(theirs, ours, strict=False)
    at = next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(theirs), len(ours)))
    raise TokenMismatchError(
        f"the tokenizer makes {len(theirs)} tokens of a prompt and the GGUF's vocabulary "
        f"{len(ours)}; they first differ at token {at}: {_around(theirs, at)} from the tokenizer, "
        f"{_around(ours, at)} from the GGUF; the prompt begins {prompt[:60]!r}. Pass the tokenizer "
        "that the GGUF was made from, or none"
    )


def _around(ids: Sequence[int], at: int) -> str:
    return f"{list(ids[at : at + 4])}" if at < len(ids) else "no token"


def check_labels(ids: Sequence[int], tokenizer: Any, vocabulary: Vocabulary) -> None:
    """Refuse a token id that names another text in the other vocabulary (white space apart)."""
    for token in ids:
        theirs, ours = str(tokenizer.decode([token])), vocabulary.piece(token)
        if theirs.strip() != ours.strip():
            raise TokenMismatchError(
                f"label token {token} is {theirs!r} for the tokenizer and {ours!r} in the GGUF. "
                "Pass the tokenizer that the GGUF was made from, or none"
            )
