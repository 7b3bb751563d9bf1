"""What a bucket's catalog says: a line per published file, with what picking it needs to know."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from hostwheel.errors import BadInput
from hostwheel.publish.catalog_check import faults

SCHEMA = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    """What a machine must have. `features` in archspec's names; None where CUDA is not used.

    `architecture` is that of the machine code ("86", "120a"), `driver` the lowest version,
    `glibc` and `glibcxx` the newest symbol versions that the files ask for ("2.34", "3.4.30").
    """

    features: tuple[str, ...]
    cuda: str | None
    architecture: str | None
    driver: str | None
    glibc: str
    glibcxx: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A published file. `kind` is "wheel", "archive" or "variant" (a relabelled copy of a wheel).

    `size` in bytes; `uploaded` RFC 3339 in UTC; `requires_python`, `requires` (the wheel's
    Requires-Dist) and `metadata` (sha256 of the METADATA file beside it) are empty for archives.
    `evidence` is file name → sha256 of build.json, audit.json, smoke.json and audit.html, and of
    statement.json where it is signed.
    `variant` is the variant label, `properties` its "namespace :: feature :: value" lines.
    `yanked` is the reason, None where it is not.
    """

    kind: str
    recipe: str
    title: str
    filename: str
    sha256: str
    size: int
    uploaded: str
    version: str
    platform_tag: str
    requires_python: str
    requires: tuple[str, ...]
    metadata: str
    needs: Needs
    evidence: Mapping[str, str]
    variant: str = ""
    properties: tuple[str, ...] = ()
    yanked: str | None = None

    @property
    def key(self) -> str:
        return object_key(self.sha256, self.filename)


def object_key(sha256: str, name: str) -> str:
    """Where a file of these bytes lies in the bucket. Such keys are written once."""
    return f"objects/{sha256[:2]}/{sha256}/{name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Catalog:
    """Generation 0 is the empty catalog of a new bucket. Entries are sorted by file name."""

    generation: int = 0
    entries: tuple[Entry, ...] = ()

    def json(self) -> str:
        lines = ",\n".join(line(entry) for entry in self.entries)
        head = f'{{"schema": {SCHEMA}, "generation": {self.generation}, "entries": ['
        return f"{head}\n{lines}\n]}}\n" if lines else f"{head}]}}\n"

    def next(self, entries: Iterable[Entry]) -> Self:
        """The generation after this one. The last entry of a file name counts."""
        named = {entry.filename: entry for entry in (*self.entries, *entries)}
        ordered = tuple(named[name] for name in sorted(named))
        return replace(self, generation=self.generation + 1, entries=ordered)


def line(entry: Entry) -> str:
    """Much faster than with `asdict`, which matters where a catalog has ten thousand of them."""
    content = {name: getattr(entry, name) for name in ENTRY}
    needs = {name: getattr(entry.needs, name) for name in NEEDS}
    return json.dumps({**content, "needs": needs, "evidence": dict(entry.evidence)}, sort_keys=True)


ENTRY, NEEDS = (tuple(each.name for each in fields(kind)) for kind in (Entry, Needs))


def read_catalog(text: str | bytes, where: str) -> Catalog:
    """BadInput for what is no catalog, or one of a newer hostwheel; `where` names it."""
    try:
        content = json.loads(text)
        if content["schema"] != SCHEMA:
            raise BadInput(
                f"{where}: a catalog of schema {content['schema']}, this hostwheel reads {SCHEMA}: "
                "use a newer one"
            )
        entries = tuple(read_entry(each, where) for each in content["entries"])
        return Catalog(generation=int(content["generation"]), entries=entries)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(f"{where}: no catalog: {type(error).__name__}: {error}") from None


def read_entry(content: Mapping[str, Any], where: str) -> Entry:
    if fault := next(faults(content), None):
        raise BadInput(f"{where}: entry {content['filename']!r}: {fault}; tell its publisher")
    needs = dict(content["needs"])
    given = {
        **content,
        "needs": Needs(**{**needs, "features": tuple(needs["features"])}),
        "requires": tuple(content["requires"]),
        "properties": tuple(content["properties"]),
    }
    return Entry(**given)
