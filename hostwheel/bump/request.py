"""What the user asked for → two verified archives → the comparison, and the pin."""

from dataclasses import dataclass
from pathlib import Path

from hostwheel.build.build import cache_folder
from hostwheel.build.source import fetch
from hostwheel.bump.bump import Bump, bump
from hostwheel.bump.pin import check_unpinned, write_pin
from hostwheel.bump.planned import Planned
from hostwheel.bump.registry import Release, find_release, parsed
from hostwheel.errors import Refused
from hostwheel.plan.data import Data
from hostwheel.plan.files import check_file
from hostwheel.plan.patches import load_patches
from hostwheel.plan.recipe import load_source
from hostwheel.plan.table import Table


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """`base`: a pinned version, None for the default one; `base_archive` a file instead of it."""

    version: str
    archive: Path | None
    index: str
    base: str | None
    base_archive: Path | None
    write: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """`release` is None where the registry was not asked."""

    bump: Bump
    release: Release | None


def answer(request: Request, data: Data, planned: Planned) -> Answer:
    """Without network when both archives are given or cached and nothing is to be pinned."""
    if request.write:
        check_unpinned(str(parsed(request.version)), data.recipes / "upstream.toml")
    for given in (request.archive, request.base_archive):
        if given is not None:
            check_file(given)
    base = request.base_archive or pinned_archive(request.base, data)
    release = None
    if request.archive is None or request.write:
        release = find_release(request.version, request.index)
    archive = chosen_archive(request, release)
    patches = load_patches(data.patches)
    return Answer(bump=bump(request.version, archive, base, patches, planned), release=release)


def pin(found: Answer, data: Data) -> None:
    """Put the version into recipes/upstream.toml. Refused unless its patches apply."""
    assert found.release is not None, "a request to pin asks the registry"
    if not found.bump.patched:
        failed = ", ".join(name for name, said in found.bump.patches.items() if said)
        raise Refused(f"{found.bump.version} was not pinned: these do not apply: {failed}")
    write_pin(found.release, found.bump.dated, data.recipes / "upstream.toml")


def pinned_archive(version: str | None, data: Data) -> Path:
    """The archive of a pinned version (None: the default), from the cache or by its URL."""
    asked = {} if version is None else {"source": version}
    source = load_source(Table(file=Path("--from"), prefix="", values=asked), data.recipes)
    return fetch(source.url, source.sha256, cache_folder())


def chosen_archive(request: Request, release: Release | None) -> Path:
    if release is None:
        assert request.archive is not None
        return request.archive
    return fetch(release.url, release.sha256, cache_folder(), given=request.archive)
