"""The index that pip and uv read, as a function of the catalog.

One index is of the whole bucket (`simple/`, `simple-json/`), one of each recipe, a channel
(`a10g/simple/`). Each page lies under two keys. One ends in a slash: S3's REST endpoint has an
object of exactly the key that is asked for, and so has a CDN before it. The other is `index.html`,
for website hosting and file servers, or `index.json`, for those that are told to take it and to
call it by its type. A static key has one content type, so HTML and JSON are two indexes. Links are
relative, and the same from both keys.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import TypeAlias

from hostwheel.publish.catalog import Catalog, Entry
from hostwheel.publish.front import front_parts
from hostwheel.publish.index_html import list_html, project_html
from hostwheel.publish.index_json import list_json, project_json
from hostwheel.publish.links import Link, link, project_of
from hostwheel.publish.page import HTML, INDEX_CACHE, JSON, Page, Part
from hostwheel.publish.variants_json import VariantsJson, labelled, variants_json

Make: TypeAlias = Callable[[], VariantsJson]

INDEXED = ("wheel", "variant")  # an archive is for machines without Python


def render(catalog: Catalog) -> tuple[Page, ...]:
    """All pages, in the order to write them in: each after what it links to."""
    return pages_of(parts(catalog))


def changed(before: Catalog, after: Catalog) -> tuple[Page, ...]:
    """Those of `after` that `before` did not give, in the same order; the others are not made."""
    known = {part.name: part.made_of for part in parts(before)}
    return pages_of(part for part in parts(after) if known.get(part.name) != part.made_of)


def pages_of(some: Iterable[Part]) -> tuple[Page, ...]:
    return tuple({page.key: page for part in some for page in part.pages()}.values())


def parts(catalog: Catalog) -> Iterator[Part]:
    channels: dict[str, list[Entry]] = {each.recipe: [] for each in catalog.entries}
    entries = [each for each in catalog.entries if each.kind in INDEXED]
    for entry in entries:
        channels[entry.recipe].append(entry)
    prefixes = {"": entries, **{f"{recipe}/": channels[recipe] for recipe in sorted(channels)}}
    for prefix, some in prefixes.items():
        yield from index_parts(prefix, grouped(some))
    yield from front_parts(catalog)


def index_parts(prefix: str, projects: Mapping[str, Sequence[Entry]]) -> Iterator[Part]:
    """One index in both forms. `prefix` is that of its keys: "", or a recipe and a slash."""
    for project, files in projects.items():
        folder = f"{prefix}simple/{project}/"
        some = labelled(files)
        described = {version: cache(partial(variants_json, some[version])) for version in some}
        for version, make in described.items():
            pages = partial(variants_pages, make)
            said = [(each.variant, each.properties, each.uploaded) for each in some[version]]
            yield Part(name=f"{folder}{version}", made_of=said, pages=pages)
        pages = partial(project_pages, prefix, project, files, described.values())
        yield Part(name=folder, made_of=files, pages=pages)
    names = list(projects)
    yield Part(name=f"{prefix}simple/", made_of=names, pages=partial(list_pages, prefix, names))


def variants_pages(make: Make) -> Iterator[Page]:
    yield make().page()


def project_pages(
    prefix: str, project: str, files: Sequence[Entry], described: Iterable[Make]
) -> Iterator[Page]:
    depth = f"{prefix}simple/project/".count("/")
    links = ordered(files, (make() for make in described), depth)
    yield from html(f"{prefix}simple/{project}/", project_html(project, links))
    yield from json(f"{prefix}simple-json/{project}/", project_json(project, links))


def list_pages(prefix: str, names: Sequence[str]) -> Iterator[Page]:
    yield from html(f"{prefix}simple/", list_html(names))
    yield from json(f"{prefix}simple-json/", list_json(names))


def grouped(entries: Iterable[Entry]) -> Mapping[str, Sequence[Entry]]:
    """By project, in the order of their names."""
    projects: dict[str, list[Entry]] = {}
    for entry in entries:
        projects.setdefault(project_of(entry.filename), []).append(entry)
    return {name: projects[name] for name in sorted(projects)}


def ordered(
    files: Iterable[Entry], described: Iterable[VariantsJson], depth: int
) -> Sequence[Link]:
    links = [link(each, depth) for each in files] + [each.link(depth) for each in described]
    return sorted(links, key=lambda each: each.filename)


def html(folder: str, body: bytes) -> Iterator[Page]:
    return both(folder, "index.html", body, HTML)


def json(folder: str, body: bytes) -> Iterator[Page]:
    return both(folder, "index.json", body, JSON)


def both(folder: str, name: str, body: bytes, content_type: str) -> Iterator[Page]:
    for key in (folder, folder + name):
        yield Page(key=key, body=body, content_type=content_type, cache_control=INDEX_CACHE)
