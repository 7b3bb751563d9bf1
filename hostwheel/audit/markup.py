"""Pieces of HTML for the audit's page. What comes from an artifact goes in through `shown`."""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import PurePosixPath

from rich.filesize import decimal

from hostwheel.audit.visible import visible


def shown(text: str) -> str:
    """Text for HTML, all of it to be seen."""
    return escape(visible(text))


def amount(size: int) -> str:
    """Bytes as people write them: 1.3 MB."""
    return decimal(size)


def several(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def file_name(name: str) -> str:
    """The path in faint, the last part plain, and all of it when pointed at."""
    path = PurePosixPath(name)
    folder = "" if str(path.parent) in (".", "/") else f"<small>{shown(str(path.parent))}/</small>"
    return f'<span class="file" title="{shown(name)}">{folder}{shown(path.name or name)}</span>'


def code_list(names: Iterable[str]) -> str:
    return " ".join(f"<code>{shown(name)}</code>" for name in names)


def bullets(lines: Sequence[str]) -> str:
    """Lines of text, as a list where there are several."""
    if len(lines) < 2:
        return "".join(shown(line) for line in lines)
    return f"<ul>{''.join(f'<li>{shown(line)}</li>' for line in lines)}</ul>"


def folded(summary: str, content: str, *, attributes: str = "") -> str:
    return f"<details{attributes}><summary>{summary}</summary>\n{content}\n</details>"


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """A table in a box that scrolls by itself. Cells are HTML already; the first heads its row."""
    head = "".join(f'<th scope="col">{cell}</th>' for cell in heads)
    body = "\n".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>'
        for first, *rest in rows
    )
    return scrolling(
        caption,
        f'<table class="{kind}"><caption>{caption}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>",
    )


def scrolling(label: str, content: str) -> str:
    """A box that the keyboard can scroll too."""
    return f'<div class="box" role="region" tabindex="0" aria-label="{label}">{content}</div>'
