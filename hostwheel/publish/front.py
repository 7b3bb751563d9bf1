"""The page for people at the bucket's root: which build is mine, and how do I install it.

It stands alone: nothing is loaded, and without its script everything can be read. A bucket does
not know its public URL, and a mirror has another: without the script, commands have URL for it.
Versions beyond the newest have a page of their own, so that the first stays small. One that moved
there stays there, since nothing leaves a catalog.
"""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from string import Template

from hostwheel.audit.markup import folded, several, shown
from hostwheel.publish.catalog import Catalog
from hostwheel.publish.front_builds import Release, releases
from hostwheel.publish.front_choices import cpu_options, gpu_options, rules
from hostwheel.publish.front_table import table
from hostwheel.publish.page import HTML, INDEX_CACHE, Page, Part

KEY = "index.html"
FOLDER = "builds/"
MOST_BUILDS = 120  # on the first page, but for the newest version, which is there in any case


def front(catalog: Catalog) -> Iterator[Page]:
    for each in front_parts(catalog):
        yield from each.pages()


def front_parts(catalog: Catalog) -> Iterator[Part]:
    """The first page last: it links to the others."""
    ordered = releases(catalog)
    here = on_first(ordered)
    for release in ordered[here:]:
        yield Part(
            name=version_key(release),
            made_of=release.builds,
            pages=partial(version_pages, release),
        )
    first = partial(first_pages, catalog, ordered[:here], ordered[here:])
    yield Part(name=KEY, made_of=catalog.entries, pages=first)


def version_pages(release: Release) -> Iterator[Page]:
    yield page(version_key(release), version_html(release))


def first_pages(
    catalog: Catalog, here: Sequence[Release], elsewhere: Sequence[Release]
) -> Iterator[Page]:
    yield page(KEY, first_html(catalog, here, elsewhere))


def on_first(ordered: Sequence[Release]) -> int:
    """How many versions the first page shows."""
    builds = 0
    for number, release in enumerate(ordered):
        builds += len(release.builds)
        if builds > MOST_BUILDS and number:
            return number
    return len(ordered)


def page(key: str, text: str) -> Page:
    return Page(key=key, body=text.encode(), content_type=HTML, cache_control=INDEX_CACHE)


def version_key(release: Release) -> str:
    return f"{FOLDER}{release.version}.html"


def first_html(catalog: Catalog, here: Sequence[Release], elsewhere: Sequence[Release]) -> str:
    pages = {each.version: "" for each in here} | {
        each.version: version_key(each) for each in elsewhere
    }
    picker = part("picker.html").substitute(
        cpus=cpu_options(), gpus=gpu_options(), rules=rules(catalog, pages)
    )
    tables = [
        unfolding(release, " open" if number == 0 else "") for number, release in enumerate(here)
    ]
    return document(
        title="llama-cpp-python and llama-server, built for one host",
        root="",
        lead=f"<p>{summary(here, elsewhere)}</p>",
        main=picker
        + f'<section id="builds"><h2>Builds</h2>\n{versions(here, elsewhere)}\n'
        + "\n".join(tables)
        + "</section>",
    )


def version_html(release: Release) -> str:
    return document(
        title=f"Builds of {shown(release.version)}",
        root="../",
        lead='<p><a href="../index.html">All versions, and which build is yours</a></p>',
        main=f"<section>{table(release, 1)}</section>",
    )


def summary(here: Sequence[Release], elsewhere: Sequence[Release]) -> str:
    if not here:
        return "Nothing is published here yet."
    newest, *others = (*here, *elsewhere)
    older = sum(len(each.builds) for each in others)
    more = f", and {several(older, 'build')} of {several(len(others), 'older version')}"
    return (
        f"{several(len(newest.builds), 'build')} of {shown(newest.version)}"
        f"{more if others else ''}. Each was compiled for the CPU and GPU of one named host."
        " Before it was published, every instruction of it was read, and its smoke tests passed or"
        " say why they could not be run: the evidence is beside it."
    )


def versions(here: Sequence[Release], elsewhere: Sequence[Release]) -> str:
    """Links to the versions, where there are several; many are folded."""
    near = [f'<a href="#v{shown(each.version)}">{shown(each.version)}</a>' for each in here]
    far = [f'<a href="{version_key(each)}">{shown(each.version)}</a>' for each in elsewhere]
    if len(near) + len(far) < 2:
        return ""
    links = " ".join(near)
    if far:
        links += folded(several(len(far), "older version"), " ".join(far))
    return f'<nav aria-label="Versions">{links}</nav>'


def unfolding(release: Release, state: str) -> str:
    name = shown(release.version)
    return (
        f'<details class="version"{state}><summary><h3>{name}</h3> '
        f"{several(len(release.builds), 'build')}</summary>\n{table(release, 0)}</details>"
    )


def document(*, title: str, root: str, lead: str, main: str) -> str:
    """`root` is where the bucket's root is, as seen from the page."""
    return part("front.html").substitute(
        title=title,
        root=root,
        lead=lead,
        main=main,
        style=style(),
        script=script(),
        digest=digest(),
    )


@cache
def part(name: str) -> Template:
    return Template((TEMPLATE / name).read_text(encoding="utf-8"))


TEMPLATE = Path(__file__).parent / "template"


@cache
def style() -> str:
    return (TEMPLATE / "front.css").read_text(encoding="utf-8")


@cache
def script() -> str:
    """The rules, then what uses them."""
    return "".join(
        (TEMPLATE / name).read_text(encoding="utf-8") for name in ("choose.js", "front.js")
    )


@cache
def digest() -> str:
    """Of the script as it stands in the page: the browser runs no other."""
    return base64.b64encode(hashlib.sha256(script().encode()).digest()).decode()
