"""Which tokens are decoded once for several texts, and which texts fit into the context together.

Pure: token ids in, numbers out.
"""

from collections.abc import Iterator, Sequence

Tokens = tuple[int, ...]


def common_prefix(texts: Sequence[Tokens]) -> int:
    """How many leading tokens all texts share. Each text keeps one of its own at least."""
    shortest, longest = min(texts), max(texts)  # in order; all others lie between these two
    end = min(len(text) for text in texts) - 1
    differing = (at for at in range(end) if shortest[at] != longest[at])
    return next(differing, end)


def waves(lengths: Sequence[int], *, cells: int, sequences: int) -> Iterator[range]:
    """Cut a list of texts into runs that `cells` of the KV cache and `sequences` can hold.

    A text that alone has more tokens than there are cells gets a run of its own.
    """
    start = used = 0
    for at, length in enumerate(lengths):
        if at > start and (at - start == sequences or used + length > cells):
            yield range(start, at)
            start, used = at, 0
        used += length
    if lengths:
        yield range(start, len(lengths))
