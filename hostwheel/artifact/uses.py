"""What was decoded, put together: which function uses which feature, and what excuses it."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from hostwheel.artifact.disasm import Decoded, Hit
from hostwheel.artifact.facts import Code, Spot, Use
from hostwheel.artifact.layout import Choice, Layout

# By function's address, None for what is nobody's.
Owned = Mapping[int | None, Sequence[Hit]]


def code(layout: Layout, decoded: Sequence[Decoded]) -> Code:
    """The whole of a file's code, from its chunks in any order."""
    found: defaultdict[str, defaultdict[int | None, list[Hit]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for part in decoded:
        for hit in part.hits:
            found[hit.feature][hit.owner].append(hit)
    names = {start: name for start, _, name in layout.functions}
    groups = by_member(layout.choices)
    return Code(
        instructions=sum(each.instructions for each in decoded),
        invalid=sum(each.invalid for each in decoded),
        used={feature: use(found[feature], names, layout, groups) for feature in sorted(found)},
        asks=layout.asks or any(each.questions for each in decoded),
    )


def use(
    owned: Owned,
    names: Mapping[int, str],
    layout: Layout,
    groups: Mapping[int, Sequence[Choice]],
) -> Use:
    """One feature's spots. What a choice proves: of its functions, some do without the feature."""
    spots = []
    for owner, hits in owned.items():
        first = min(hits, key=lambda each: each.address)
        known = (
            None
            if owner is None
            else layout.gated.get(owner) or proof(owned, groups.get(owner, ()))
        )
        spots.append(
            Spot(
                function=None if owner is None else names[owner],
                address=first.address,
                count=sum(each.count for each in hits),
                text=first.text,
                evidence=known,
                at_load=owner is not None and first.address < layout.at_load.get(owner, 0),
            )
        )
    return Use(
        count=sum(each.count for each in spots),
        spots=tuple(sorted(spots, key=lambda each: each.address)),
    )


def proof(users: Collection[int | None], choices: Iterable[Choice]) -> str | None:
    for choice in choices:
        if any(function not in users for function in choice.functions):
            return choice.reason
    return None


def by_member(choices: Iterable[Choice]) -> Mapping[int, Sequence[Choice]]:
    found: defaultdict[int, list[Choice]] = defaultdict(list)
    for choice in choices:
        for function in choice.functions:
            found[function].append(choice)
    return found
