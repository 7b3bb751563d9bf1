"""The index that pip and uv read, as a function of the catalog.

One index is of the whole bucket (`simple/`, `simple-json/`), one of each recipe, a channel
(`a10g/simple/`). Each page lies under two keys. One ends in a slash: S3's REST endpoint has an
object of exactly the key that is asked for, and so has a CDN before it. The other is `index.html`,
for website hosting and file servers, or `index.json`, for those that are told to take it and to
call it by its type. A static key has one content type, so HTML and JSON are two indexes. Links are
relative, and the same from both keys.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from hostwheel.publish.catalog import Catalog, Entry
from hostwheel.publish.index_html import list_html, project_html
from hostwheel.publish.index_json import list_json, project_json
from hostwheel.publish.links import Link, link, project_of
from hostwheel.publish.page import HTML, INDEX_CACHE, JSON, Page
from hostwheel.publish.variants_json import VariantsJson, variants_jsons

INDEXED = ("wheel", "variant")  # an archive is for machines without Python


def render(catalog: Catalog) -> tuple[Page, ...]:
    """All pages, in the order to write them in: each after what it links to."""
    channels: dict[str, list[Entry]] = {each.recipe: [] for each in catalog.entries}
    entries = [each for each in catalog.entries if each.kind in INDEXED]
    for entry in entries:
        channels[entry.recipe].append(entry)
    prefixes = {"": entries, **{f"{recipe}/": channels[recipe] for recipe in sorted(channels)}}
    pages = [page for prefix, some in prefixes.items() for page in index_pages(prefix, some)]
    return tuple({page.key: page for page in pages}.values())


def index_pages(prefix: str, entries: Iterable[Entry]) -> Iterator[Page]:
    """One index in both forms. `prefix` is that of its keys: "", or a recipe and a slash."""
    depth = f"{prefix}simple/project/".count("/")
    projects = grouped(entries)
    for project, files in projects.items():
        described = variants_jsons(files)
        yield from (each.page() for each in described)
        links = ordered(files, described, depth)
        yield from html(f"{prefix}simple/{project}/", project_html(project, links))
        yield from json(f"{prefix}simple-json/{project}/", project_json(project, links))
    yield from html(f"{prefix}simple/", list_html(projects))
    yield from json(f"{prefix}simple-json/", list_json(projects))


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
