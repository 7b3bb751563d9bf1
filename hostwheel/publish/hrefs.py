"""The links of a page of the index, as keys of its bucket."""

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from urllib.parse import unquote, urljoin, urlsplit


class Anchors(HTMLParser):
    """Collects the targets of all links."""

    def __init__(self) -> None:
        super().__init__()
        self.hrefs: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.hrefs += [value for name, value in attrs if tag == "a" and name == "href" and value]


def links_of(key: str, body: bytes) -> Iterator[str]:
    """Keys that the page under `key` links to; of a folder, the index.html in it.

    Nothing of what is neither HTML nor an index in JSON.
    """
    text = body.decode(errors="replace")
    for href in json_urls(text) if text.startswith("{") else html_urls(text):
        target = unquote(urlsplit(urljoin(f"/{key}", href)).path).removeprefix("/")
        yield f"{target}index.html" if target.endswith("/") else target


def html_urls(text: str) -> Iterator[str]:
    found = Anchors()
    found.feed(text)
    yield from found.hrefs


def json_urls(text: str) -> Iterator[str]:
    try:
        content = json.loads(text)
    except ValueError:
        return
    for file in content.get("files", ()):
        yield file["url"]
