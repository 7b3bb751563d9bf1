"""Every link between the built pages leads somewhere, and no page loads a thing from elsewhere.

python docs/links.py dist/docs; exits with 1 and a line for each link that does not hold.
"""

import sys
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """The anchors of a page, where its links lead, and what a browser loads to show it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in LOADED and LOADED[tag] in given:
            self.loaded.append(given[LOADED[tag]])


def problems(folder: Path) -> Iterator[str]:
    pages = {file: Page(file.read_text()) for file in sorted(folder.rglob("*.html"))}
    if not pages:
        yield f"{folder}: no page in it; sphinx-build makes them"
    for file, page in pages.items():
        name = file.relative_to(folder)
        for link in page.loaded:
            if elsewhere(link):
                yield f"{name} loads {link}; a page has to hold without network"
        for link in (*page.links, *page.loaded):
            if not elsewhere(link) and (wrong := broken(file, link, pages)):
                yield f"{name} links to {link}: {wrong}"


def elsewhere(link: str) -> bool:
    parts = urlsplit(link)
    return bool(parts.netloc or parts.scheme) and parts.scheme != "data"


def broken(file: Path, link: str, pages: dict[Path, Page]) -> str:
    """What is wrong with a link of the page `file` inside the site; empty if nothing is."""
    parts = urlsplit(link)
    if parts.scheme == "data":
        return ""
    target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    if not target.is_file():
        return "there is no such file"
    anchor = unquote(parts.fragment)
    if anchor and target in pages and anchor not in pages[target].anchors:
        return f"{target.name} has no #{anchor}"
    return ""


def main(argv: Sequence[str]) -> int:
    found = list(problems(Path(argv[0]).resolve()))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
