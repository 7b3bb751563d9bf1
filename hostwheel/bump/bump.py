"""A new upstream version against the pinned one: which patches apply, and what changed."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from packaging.version import Version

from hostwheel.build.download import digest
from hostwheel.build.patches import complaints
from hostwheel.build.source import unpack
from hostwheel.bump.commit import Dated, dated
from hostwheel.bump.finding import Finding
from hostwheel.bump.options import compare_defines, compare_options
from hostwheel.bump.planned import Planned, defines_found
from hostwheel.bump.registry import parsed
from hostwheel.bump.rules import compare_rules
from hostwheel.bump.symbols import compare_driver, compare_symbols, forwarded
from hostwheel.bump.targets import compare_links, compare_targets
from hostwheel.bump.tree import Upstream, read_upstream
from hostwheel.errors import BadInput
from hostwheel.plan.patches import Patch, is_for


@dataclass(frozen=True, kw_only=True, slots=True)
class Bump:
    """`patches`: name → what git complained of, () where it applies; `other` are not for it."""

    version: str
    base: str
    archive_sha256: str
    dated: Dated
    patches: Mapping[str, tuple[str, ...]]
    other: tuple[str, ...]
    defines: Mapping[str, str]
    findings: tuple[Finding, ...]

    @property
    def patched(self) -> bool:
        return not any(self.patches.values())

    @property
    def unplanned(self) -> int:
        failed = sum(bool(said) for said in self.patches.values())
        return failed + sum(finding.unplanned for finding in self.findings)

    def json(self) -> dict[str, Any]:
        return {"schema": 1, "unplanned": self.unplanned, **asdict(self)}


def bump(
    version: str, archive: Path, base: Path, patches: Sequence[Patch], planned: Planned
) -> Bump:
    """Compare two verified archives. Everything happens in a temporary folder."""
    upstream = parsed(version)
    chosen = tuple(patch for patch in patches if is_for(patch, upstream))
    with tempfile.TemporaryDirectory(prefix="hostwheel-bump-") as name:
        before = unpacked(base, Path(name) / "base", planned)
        after = unpacked(archive, Path(name) / "new", planned)
        check_version(after, upstream, archive)
        failures = {patch.name: complaints(patch, Path(name) / "new") for patch in chosen}
    defines = defines_found(planned, after.options, after.words)
    return Bump(
        version=str(upstream),
        base=before.version,
        archive_sha256=digest(archive),
        dated=dated(archive),
        patches=failures,
        other=tuple(patch.name for patch in patches if patch not in chosen),
        defines=defines,
        findings=(
            *compare_defines(defines),
            *compare_options(before.options, after.options, planned, defines),
            *compared(before, after, planned),
            *compare_driver(after.driver_calls, forwarded(patch.text for patch in chosen)),
        ),
    )


def unpacked(archive: Path, into: Path, planned: Planned) -> Upstream:
    unpack(archive, into)
    try:
        return read_upstream(into, planned)
    except BadInput as error:
        raise BadInput(f"{archive}: {error}") from None


def check_version(found: Upstream, wanted: Version, archive: Path) -> None:
    if parsed(found.version) != wanted:
        raise BadInput(f"{archive} is llama-cpp-python {found.version}, not {wanted}")


def compared(before: Upstream, after: Upstream, planned: Planned) -> Iterator[Finding]:
    yield from compare_rules(before.rules, after.rules)
    yield from compare_targets(before.targets, after.targets, planned)
    yield from compare_links(before.links, after.links, after.targets)
    yield from compare_symbols((before.exported, before.bound), (after.exported, after.bound))
