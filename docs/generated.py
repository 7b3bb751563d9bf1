"""What the pages do not repeat by hand: text that takes the place of `<!-- generated: NAME -->`.

A page says where; the text comes from the one place that knows it.
"""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from hostwheel.__main__ import parser
from hostwheel.audit.checks import CHECKS, Check

DOCS = Path(__file__).parent
PLACE = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)
COMMAND = re.compile(r"^(?:uvx (?:--from \S+ )?)?hostwheel ([a-z]+)", re.MULTILINE)
NAMED = re.compile(r"`(?:uvx )?hostwheel ([a-z]+)")  # in running text
LISTED = re.compile(r"^ {4}([a-z]+)(?: |$)", re.MULTILINE)  # as argparse lists subcommands


def setup(app: Sphinx) -> Mapping[str, bool]:
    app.connect("builder-inited", check_commands)
    app.connect("source-read", fill)
    return {"parallel_read_safe": True}


def fill(app: Sphinx, page: str, source: list[str]) -> None:
    """Sphinx hands the text of a page in a list of one. KeyError for a name that is not known."""
    source[0] = PLACE.sub(lambda place: TEXTS[place[1]](), source[0])


def checks() -> str:
    """A section for each check of the audit, as `hostwheel audit --explain ID` has it."""
    return "\n".join(section(check) for check in CHECKS)


def section(check: Check) -> str:
    return f"## {check.id}\n\n**{plain(check.title)}**\n\n{plain(check.reason)}\n"


def plain(text: str) -> str:
    """Text in which nothing but `code` is Markdown."""
    return re.sub(r"`[^`]*`|[*_<\[\\$]", lambda it: it[0] if "`" in it[0] else "\\" + it[0], text)


def recipes() -> str:
    return said("-m", "hostwheel", "recipes", "--markdown")


def costs() -> str:
    return said("bench/costs.py")


def said(*argv: str) -> str:
    done = subprocess.run(
        (sys.executable, *argv), capture_output=True, text=True, cwd=DOCS.parent, check=True
    )
    return done.stdout


def check_commands(app: Sphinx) -> None:
    """ExtensionError, which ends Sphinx, for a subcommand that this hostwheel does not have."""
    there = known()
    if lacking := sorted({(page, name) for page, name in shown() if name not in there}):
        told = ", ".join(f"{page} has `hostwheel {name}`" for page, name in lacking)
        raise ExtensionError(f"{told}: there is no such command; see `hostwheel --help`")


def shown() -> Iterator[tuple[str, str]]:
    """The page and the name of each subcommand, in its command lines and in its text."""
    for page, line in command_lines():
        yield from ((page, name) for name in COMMAND.findall(line))
    for file in sorted(DOCS.glob("*.md")):
        yield from ((file.name, name) for name in NAMED.findall(file.read_text()))


def known() -> set[str]:
    return set(LISTED.findall(parser().format_help()))


def command_lines() -> Iterator[tuple[str, str]]:
    """The page and the text of each line with a command in a code block, continuations joined."""
    for page in sorted(DOCS.glob("*.md")):
        for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                yield page.name, line.partition("  #")[0].rstrip()


TEXTS: Mapping[str, Callable[[], str]] = {
    "checks": checks,
    "recipes": recipes,
    "costs": costs,
}
