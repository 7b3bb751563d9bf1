"""The HTML of the index: PEPs 503 (pages), 592 (yanked), 629 (version), 691, 714 (metadata).

Of metadata only the new name is written, not `data-dist-info-metadata`. pip reads the new one since
23.2; with the old one, pip 23.0.1 (Debian 12's) cannot install "llama-cpp-python" at all, since it
compares that with METADATA's llama_cpp_python letter by letter.
"""

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from hostwheel.publish.links import Link
from hostwheel.publish.page import API_VERSION


def list_html(projects: Iterable[str]) -> bytes:
    return document("Projects", (f'<a href="{name}/">{name}</a>' for name in projects))


def project_html(project: str, links: Sequence[Link]) -> bytes:
    return document(f"Links for {project}", (anchor(each) for each in links))


def document(title: str, anchors: Iterable[str]) -> bytes:
    lines = (
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta name="pypi:repository-version" content="{API_VERSION}">',
        f"<title>{title}</title>",
        "</head>",
        "<body>",
        f"<h1>{title}</h1>",
        *(f"{each}<br>" for each in anchors),
        "</body>",
        "</html>",
    )
    return ("\n".join(lines) + "\n").encode()


def anchor(link: Link) -> str:
    said = "".join(f' {name}="{escape(value)}"' for name, value in attributes(link))
    why = "" if link.yanked is None else f" yanked: {escape(link.yanked)}"
    name = escape(link.filename)
    return f'<a href="{escape(link.url)}#sha256={link.sha256}"{said}>{name}</a>{why}'


def attributes(link: Link) -> Iterator[tuple[str, str]]:
    if link.requires_python:
        yield "data-requires-python", link.requires_python
    if link.metadata:
        yield "data-core-metadata", f"sha256={link.metadata}"
    if link.yanked is not None:
        yield "data-yanked", link.yanked
