"""What a bucket has that its catalog does not name: pip and uv would read a page all the same."""

import re
from collections.abc import Iterator
from contextlib import suppress

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from hostwheel.errors import MachineLacks
from hostwheel.publish.bucket import Bucket
from hostwheel.publish.catalog import Catalog
from hostwheel.publish.fsck import orphans
from hostwheel.publish.generations import generation_key, generation_number
from hostwheel.publish.index import render
from hostwheel.publish.settle import derived
from hostwheel.user.verify_finding import About, Finding
from hostwheel.user.verify_pages import MEANWHILE, names_files
from hostwheel.user.verify_place import Place

PAGE = re.compile(r"(^|/)simple(-json)?(/|$)")
FORMS = ("simple/{}/", "simple/{}/index.html", "simple-json/{}/", "simple-json/{}/index.json")
UNSEEN = "files that the catalog does not name: {why}; `hostwheel fsck` lists them"
NEWER = f"is newer than catalog.json, and publishers go on from it{MEANWHILE}"
FOREIGN = f"is a page of an index, and the catalog gives none there{MEANWHILE}"


def stray_findings(catalog: Catalog, place: Place) -> Iterator[Finding]:
    about = About(name="bucket")
    if place.bucket is None:
        yield from asked(catalog, place)
        yield about.not_checked("catalog", UNSEEN.format(why="a web server does not list its own"))
        return
    try:
        keys = {each.key for each in place.bucket.list("")}
    except MachineLacks as error:
        yield about.not_checked("catalog", UNSEEN.format(why=str(error)))
        return
    yield from listed(catalog, place.bucket, keys)


def listed(catalog: Catalog, bucket: Bucket, keys: set[str]) -> Iterator[Finding]:
    for key in sorted(keys):
        if (generation_number(key) or 0) > catalog.generation:
            yield About(name=key).refused("catalog", NEWER)
    for stray in orphans(bucket, keys, derived(bucket, catalog)):
        about = About(name=stray.key)
        if PAGE.search(stray.key):
            yield about.refused("index", FOREIGN)
        else:
            yield about.not_checked("catalog", f"{stray.message}; `hostwheel fsck` says more")


def asked(catalog: Catalog, place: Place) -> Iterator[Finding]:
    """What is likely: the next generation, and pages of the packages that ours need."""
    key = generation_key(catalog.generation + 1)
    if place.read(key) is not None:
        yield About(name=key).refused("catalog", NEWER)
    for key in needed_pages(catalog):
        found = place.read(key)
        if found is not None and names_files(found):
            yield About(name=key).refused("index", FOREIGN)


def needed_pages(catalog: Catalog) -> Iterator[str]:
    """pip and uv take a package from whichever index has the newest of its name."""
    given = {page.key for page in render(catalog)}
    channels = ("", *sorted({f"{each.recipe}/" for each in catalog.entries}))
    for name in sorted({*needed_names(catalog)}):
        keys = (channel + form.format(name) for channel in channels for form in FORMS)
        yield from (key for key in keys if key not in given)


def needed_names(catalog: Catalog) -> Iterator[str]:
    for text in {text for each in catalog.entries for text in each.requires}:
        with suppress(InvalidRequirement):  # no METADATA says so, and that is told
            yield canonicalize_name(Requirement(text).name)
