"""The pages that pip, uv and people read, against the catalog."""

import html
import json
from collections.abc import Iterator
from urllib.parse import unquote

from hostwheel.errors import Refused
from hostwheel.publish.catalog import Catalog
from hostwheel.publish.index import render
from hostwheel.user.verify_finding import About, Finding
from hostwheel.user.verify_place import Place

MEANWHILE = "; if someone is publishing just now, try again in a minute"
PACKED = (".whl", ".zip", ".tar", ".tgz", ".tbz", ".txz", ".tlz")  # how names of files may end
OWN = "the server has a page of its own there, as of a folder; no file to install was found in it"
SLASHES = "pages whose keys end in a slash: such a store may have them, and they cannot be read"


def page_findings(catalog: Catalog, place: Place) -> Iterator[Finding]:
    own: list[str] = []
    yield from About(name="pages").held(
        "index", "are those that follow from the catalog", lambda: check_pages(catalog, place, own)
    )
    yield from (About(name=key).not_checked("index", OWN) for key in own)
    if not place.slashes and "://" in place.where:
        yield About(name="pages").not_checked("index", SLASHES)


def check_pages(catalog: Catalog, place: Place, own: list[str]) -> None:
    """Refused with the first page that pip, uv or a person would be led astray by.

    Keys that end in a slash are not everywhere. Those under which a server has something of its
    own are added to `own`.
    """
    for page in render(catalog):
        folder = page.key.endswith("/")
        if folder and not place.slashes:
            continue
        found = place.read(page.key)
        if found == page.body or (folder and found is None):
            continue
        if not folder or found is None or names_files(found):
            raise Refused(f"{page.key} is not what the catalog gives{MEANWHILE}")
        own.append(page.key)


def names_files(page: bytes) -> bool:
    """Whether an installer may find a file in it, however it reads HTML; JSON counts as one."""
    try:
        json.loads(page)
    except ValueError:
        text = unquote(html.unescape(page.decode(errors="replace"))).lower()
        return any(each in text for each in PACKED)
    return True
