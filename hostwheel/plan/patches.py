"""Patches to the source, each with its reasons and the upstream versions that it is for."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from hostwheel.errors import BadInput
from hostwheel.plan.files import listed, read_file

NAME = re.compile(r"\d{4}-[a-z0-9][a-z0-9._-]*\.patch")
HEAD = ("Why:", "Upstream:", "Drop when:")
VERSIONS = re.compile(r"^Versions:(.*)$", re.MULTILINE)
NOT_PATCHES = ("README.md",)


@dataclass(frozen=True, kw_only=True, slots=True)
class Patch:
    """`versions` are those that it is for, as a specifier (">=0.3.30,<0.4"); "" for all."""

    name: str
    text: str
    sha256: str
    versions: str = ""


def patches_for(folder: Path, version: str) -> tuple[Patch, ...]:
    """The patches of a folder for one upstream version, in order. What plan and build go by."""
    try:
        upstream = Version(version)
    except InvalidVersion:
        raise BadInput(f"{version!r} is no version of llama-cpp-python, like 0.3.36") from None
    return tuple(patch for patch in load_patches(folder) if is_for(patch, upstream))


def is_for(patch: Patch, upstream: Version) -> bool:
    return SpecifierSet(patch.versions).contains(upstream, prereleases=True)


def patch_hashes(folder: Path, version: str) -> Mapping[str, str]:
    """name → sha256 of `patches_for`, as a plan holds them."""
    return {patch.name: patch.sha256 for patch in patches_for(folder, version)}


def load_patches(folder: Path) -> tuple[Patch, ...]:
    """All patches of a folder in the order of their names (NNNN-what.patch).

    BadInput for another name, or a head without one of the lines in HEAD.
    """
    if not folder.is_dir():
        raise BadInput(f"there is no folder of patches at {folder}")
    return tuple(load(path) for path in listed(folder, "*") if path.name not in NOT_PATCHES)


def load(path: Path) -> Patch:
    if not NAME.fullmatch(path.name):
        raise BadInput(f"{path}: a patch is named NNNN-what.patch, like 0001-no-libcuda.patch")
    raw = read_file(path)
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: cannot read it as UTF-8 text: {error}") from None
    head = re.split(r"^(?:diff |--- )", text, maxsplit=1, flags=re.MULTILINE)[0]
    for field in HEAD:
        if not re.search(rf"^{field}[ \t]*\S", head, re.MULTILINE):
            raise BadInput(f"{path}: no line `{field} …` before its first diff; add it")
    sha256 = hashlib.sha256(raw).hexdigest()
    return Patch(name=path.name, text=text, sha256=sha256, versions=versions_of(path, head))


def versions_of(path: Path, head: str) -> str:
    """What the line `Versions:` says, "" without one. BadInput unless it is a specifier."""
    lines = [match[1].strip() for match in VERSIONS.finditer(head)]
    if not lines:
        return ""
    try:
        if len(lines) > 1 or not str(SpecifierSet(lines[0])):
            raise InvalidSpecifier
    except InvalidSpecifier:
        found = " and ".join(repr(line) for line in lines)
        hint = "expected one specifier like `Versions: >=0.3.30,<0.4`, or no such line for all"
        raise BadInput(f"{path}: its `Versions:` is {found}; {hint}") from None
    return lines[0]
