"""`<name>-<version>-variants.json`: which properties a machine needs for each label.

The schema is that of variantlib 0.2.2, which uv 0.13.9 reads. PEPs 817, 825 and 850 are drafts.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hostwheel.publish.catalog import Entry, object_key
from hostwheel.publish.links import Link, relative
from hostwheel.publish.page import OBJECT_CACHE, Page

SCHEMA = "https://variants-schema.wheelnext.dev/v0.2.0.json"

# In the order in which they count: a machine with a GPU takes what uses it.
PROVIDERS: Mapping[str, Mapping[str, Any]] = {
    "nvidia": {
        "requires": ["nvidia-variant-provider"],
        "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
    },
    "x86_64": {"requires": ["x86-64-variant-provider"]},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class VariantsJson:
    """An object like the wheels, under its hash, so that a page's link to it is never stale."""

    filename: str
    version: str
    uploaded: str
    body: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.body).hexdigest()

    @property
    def key(self) -> str:
        return object_key(self.sha256, self.filename)

    def page(self) -> Page:
        return Page(
            key=self.key,
            body=self.body,
            content_type="application/json",
            cache_control=OBJECT_CACHE,
        )

    def link(self, depth: int) -> Link:
        return Link(
            filename=self.filename,
            url=relative(self.sha256, self.filename, depth),
            sha256=self.sha256,
            size=len(self.body),
            uploaded=self.uploaded,
            version=self.version,
        )


def labelled(entries: Iterable[Entry]) -> Mapping[str, Sequence[Entry]]:
    """The variants among these files of a project, by version."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.variant:
            found.setdefault(entry.version, []).append(entry)
    return found


def variants_json(entries: Sequence[Entry]) -> VariantsJson:
    """Of the variants of one version."""
    name, version, _ = entries[0].filename.split("-", 2)
    return VariantsJson(
        filename=f"{name}-{version}-variants.json",
        version=entries[0].version,
        uploaded=max(each.uploaded for each in entries),
        body=described({each.variant: each.properties for each in entries}),
    )


def described(variants: Mapping[str, Sequence[str]]) -> bytes:
    """What variants.json holds of these labels, and variant.json of one."""
    said = {
        "$schema": SCHEMA,
        "default-priorities": {"namespace": list(PROVIDERS)},
        "providers": PROVIDERS,
        "variants": {label: nested(lines) for label, lines in sorted(variants.items())},
    }
    return (json.dumps(said, separators=(",", ":")) + "\n").encode()


def nested(lines: Iterable[str]) -> Mapping[str, Mapping[str, Sequence[str]]]:
    """namespace → feature → values, of "namespace :: feature :: value" lines."""
    found: dict[str, dict[str, list[str]]] = {}
    for line in lines:
        namespace, feature, value = line.split(" :: ")
        found.setdefault(namespace, {}).setdefault(feature, []).append(value)
    return found
