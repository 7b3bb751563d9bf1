"""Is an entry of a catalog what hostwheel writes? Pure. Catalogs come from the network, and what
they say becomes paths, commands and comparisons."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from packaging.version import InvalidVersion, Version

KINDS = ("wheel", "archive", "variant")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
WHEEL = re.compile(r"llama_cpp_python-[A-Za-z0-9_.+-]+\.whl")
SHA256 = re.compile(r"[0-9a-f]{64}")
NUMBERS = re.compile(r"\d{1,9}(\.\d{1,9})*")
ARCHITECTURE = re.compile(r"\d{2,4}[a-z]?")
TEXTS = ("recipe", "title", "uploaded", "platform_tag", "requires_python", "variant")
LISTS = ("requires", "properties")


def faults(entry: Mapping[str, Any]) -> Iterator[str]:
    """Each as "FIELD is VALUE, expected …"; of every field that is there."""
    yield from wrong(entry, "kind", entry["kind"] in KINDS, f"one of {', '.join(KINDS)}")
    wheel = entry["kind"] != "archive"
    yield from unlike(entry, "filename", WHEEL if wheel else NAME, "a plain name of its kind")
    yield from unlike(entry, "sha256", SHA256, "64 hexadecimal digits")
    yield from wrong(entry, "size", is_size(entry["size"]), "a number of bytes")
    yield from wrong(entry, "version", is_version(entry["version"]), "a version (PEP 440)")
    if entry["metadata"] != "":
        yield from unlike(entry, "metadata", SHA256, "64 hexadecimal digits")
    for field in TEXTS:
        yield from wrong(entry, field, isinstance(entry.get(field, ""), str), "a text")
    for field in LISTS:
        yield from wrong(entry, field, are_texts(entry[field]), "a list of texts")
    yanked = entry.get("yanked")
    yield from wrong(entry, "yanked", yanked is None or isinstance(yanked, str), "a text or null")
    for name, digest in entry["evidence"].items():
        if not (NAME.fullmatch(name) and isinstance(digest, str) and SHA256.fullmatch(digest)):
            yield f"evidence {name!r} is {digest!r}, expected a plain name and its sha256"
    yield from needs_faults(entry["needs"])


def needs_faults(needs: Mapping[str, Any]) -> Iterator[str]:
    yield from wrong(needs, "features", are_texts(needs["features"]), "a list of texts")
    for field in ("glibc", "glibcxx"):
        yield from unlike(needs, field, NUMBERS, "a version such as 2.34")
    for field in ("cuda", "driver"):
        if needs[field] is not None:
            yield from unlike(needs, field, NUMBERS, "a version such as 13.0, or null")
    if needs["architecture"] is not None:
        yield from unlike(needs, "architecture", ARCHITECTURE, "one such as 86, or null")


def wrong(content: Mapping[str, Any], field: str, well: bool, expected: str) -> Iterator[str]:
    if not well:
        yield f"{field} is {content.get(field)!r}, expected {expected}"


def unlike(
    content: Mapping[str, Any], field: str, form: re.Pattern[str], expected: str
) -> Iterator[str]:
    value = content[field]
    well = isinstance(value, str) and form.fullmatch(value) is not None
    yield from wrong(content, field, well, expected)


def is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_version(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(Version(value))
    except InvalidVersion:
        return False


def are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
