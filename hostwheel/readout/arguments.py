"""What a caller passed, looked at before anything is decoded. All raise ValueError."""

from collections.abc import Iterable, Sequence
from operator import index
from typing import SupportsIndex

Group = tuple[str, tuple[str, ...]]


def checked_prompts(prompts: Iterable[str]) -> tuple[str, ...]:
    """Texts, none of them empty. One bare text is refused: it would be taken letter by letter."""
    texts = _texts(prompts, "prompts")
    for at, text in enumerate(texts):
        if not text:
            raise ValueError(f"prompt {at} is empty")
    return texts


def checked_groups(groups: Iterable[tuple[str, Iterable[str]]]) -> tuple[Group, ...]:
    """Pairs of one prefix and many suffixes, where prefix + suffix is never empty."""
    checked = []
    for at, group in enumerate(groups):
        if isinstance(group, str) or len(group) != 2:
            raise ValueError(f"group {at} is not a pair of a prefix and its suffixes")
        (prefix,) = _texts(group[:1], "prefix")
        suffixes = _texts(group[1], "suffixes")
        if not prefix and "" in suffixes:
            raise ValueError(f"prompt {suffixes.index('')} of group {at} is empty")
        checked.append((prefix, suffixes))
    return tuple(checked)


def _texts(values: Iterable[str], what: str) -> tuple[str, ...]:
    if isinstance(values, str):
        raise ValueError(f"{what} is one text; pass a list of texts")
    texts = tuple(values)
    for at, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"{what}[{at}] is {type(text).__name__}, not a text")
    return texts


def paired(
    token_ids: Iterable[Iterable[int]], others: Sequence[object], what: str
) -> tuple[Iterable[int], ...]:
    """The lists of token ids, as many as there are `others`."""
    lists = tuple(token_ids)
    if len(lists) != len(others):
        raise ValueError(f"{len(others)} {what}, but {len(lists)} lists of token ids")
    return lists


def checked_ids(ids: Iterable[int], n_vocab: int) -> tuple[int, ...]:
    """Token ids, each in the vocabulary. A negative one would count from the end."""
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise ValueError(f"token ids are expected as a list of whole numbers, not {ids!r}")
    checked = tuple(_whole(each) for each in ids)
    for token in checked:
        if not 0 <= token < n_vocab:
            raise ValueError(f"token id {token} is outside the vocabulary of {n_vocab}")
    return checked


def _whole(value: SupportsIndex) -> int:
    try:
        return index(value)  # numpy's whole numbers too
    except TypeError as error:
        raise ValueError(f"a token id is a whole number, not {value!r}") from error


def checked_length(tokens: Sequence[int], text: str, n_ctx: int) -> None:
    """A prompt that has tokens, and fits the context."""
    if not tokens:
        raise ValueError(f"the prompt {text[:60]!r} has no token in this vocabulary")
    if len(tokens) > n_ctx:
        raise ValueError(
            f"a prompt of {len(tokens)} tokens is longer than the context of {n_ctx} (n_ctx): "
            f"it begins {text[:60]!r}"
        )
