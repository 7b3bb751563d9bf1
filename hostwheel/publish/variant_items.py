"""The variant-labelled copies that are published beside the wheels they were made of."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from hostwheel.artifact.contents import sha256
from hostwheel.publish.entries import Item, described, file_uploads
from hostwheel.publish.variants import prove_copy, variant_of


def with_variants(items: Iterable[Item], folder: Path) -> Iterator[Item]:
    """Each item, and after a wheel its copy, which is made in `folder` and proved to be one."""
    for item in items:
        yield item
        if item.entry.kind == "wheel":
            yield copy_of(item, folder)


def copy_of(item: Item, folder: Path) -> Item:
    """The evidence is the wheel's: but for dist-info, so are the bytes."""
    made = variant_of(item.file, item.entry.needs, folder)
    prove_copy(item.file, made.file)
    entry = replace(
        item.entry,
        kind="variant",
        filename=made.file.name,
        sha256=sha256(made.file),
        size=made.file.stat().st_size,
        version=made.version,
        variant=made.label,
        properties=made.properties,
    )
    entry = described(entry, made.file)
    return Item(entry=entry, file=made.file, uploads=tuple(file_uploads(entry, made.file)))
