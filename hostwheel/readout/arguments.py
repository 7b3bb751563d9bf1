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
    _refuse_set(values, what)
    texts = tuple(values)
    for at, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"{what}[{at}] is {type(text).__name__}, not a text")
    return texts


def checked_lists(
    token_ids: Iterable[Iterable[int]], count: int, what: str, n_vocab: int
) -> tuple[tuple[int, ...], ...]:
    """The lists of token ids, one for each of the `count` prompts or groups (`what`)."""
    lists = tuple(
        _checked_ids(ids, n_vocab, f"token_ids[{at}]") for at, ids in enumerate(token_ids)
    )
    if len(lists) != count:
        raise ValueError(f"{count} {what}, but {len(lists)} lists of token ids")
    return lists


def _checked_ids(ids: Iterable[int], n_vocab: int, name: str) -> tuple[int, ...]:
    """Token ids, each in the vocabulary. A negative one would count from the end."""
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise ValueError(f"{name} is expected as a list of whole numbers, not {ids!r}")
    _refuse_set(ids, name)
    checked = tuple(_whole(each, name) for each in ids)
    for token in checked:
        if not 0 <= token < n_vocab:
            raise ValueError(f"{name}: token id {token} is outside the vocabulary of {n_vocab}")
    return checked


def _whole(value: SupportsIndex, name: str) -> int:
    try:
        if isinstance(value, bool):  # True would be token 1
            raise TypeError
        return index(value)  # numpy's whole numbers too
    except TypeError as error:
        raise ValueError(f"{name}: a token id is a whole number, not {value!r}") from error


def _refuse_set(values: object, name: str) -> None:
    if isinstance(values, set | frozenset):
        raise ValueError(f"{name} is a set, which has no order for the results; pass a list")


def checked_length(tokens: Sequence[int], text: str, n_ctx: int, name: str) -> None:
    """A prompt that has tokens, and fits the context."""
    if not tokens:
        raise ValueError(f"{name} ({text[:60]!r}) has no token in this vocabulary")
    if len(tokens) > n_ctx:
        raise ValueError(
            f"{name} of {len(tokens)} tokens is longer than the context of {n_ctx} (n_ctx): "
            f"it begins {text[:60]!r}"
        )
