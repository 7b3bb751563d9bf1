"""A TOML table whose every wrong key or value is an error that names file, key and what fits."""

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from hostwheel.errors import BadInput
from hostwheel.plan.files import read_file

T = TypeVar("T", str, bool, int)

SHOWN = 200  # characters of a wrong value
KINDS = {str: "a string", bool: "true or false", int: "a whole number", dict: "a table"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """One table of a TOML file; `prefix` is its place in the file, "" at the top."""

    file: Path
    prefix: str
    values: Mapping[str, Any]

    def knows(self, *keys: str) -> "Table":
        """Refuse any key but these."""
        for key in self.values:
            if key not in keys:
                raise self.wrong(key, "is not a key that hostwheel knows", near(key, keys))
        return self

    def get(self, key: str, kind: type[T]) -> T | None:
        value = self.values.get(key)
        if value is None:
            return None
        if type(value) is not kind:
            raise self.wrong(key, f"is {shown(value)}", f"expected {KINDS[kind]}")
        return value

    def need(self, key: str, kind: type[T]) -> T:
        value = self.get(key, kind)
        if value is None:
            raise self.wrong(key, "is missing", f"expected {KINDS[kind]}")
        return value

    def matching(self, key: str, pattern: str, example: str) -> str:
        """A needed string of a given form; `example` is shown to whoever got it wrong."""
        value = self.need(key, str)
        if not re.fullmatch(pattern, value, re.ASCII):
            raise self.wrong(key, f"is {shown(value)}", f"expected something like {example!r}")
        return value

    def line(self, key: str) -> str:
        """A needed string that people read in a table: one line, and not a blank one."""
        value = self.need(key, str)
        if not value.strip() or not value.isprintable():
            hint = "expected one line of text without control characters"
            raise self.wrong(key, f"is {shown(value)}", hint)
        return value

    def between(self, key: str, least: int, most: int, hint: str) -> int:
        value = self.need(key, int)
        if not least <= value <= most:
            raise self.wrong(key, f"is {shown(value)}", f"expected {least} to {most}, {hint}")
        return value

    def strings(self, key: str) -> tuple[str, ...]:
        value = self.values.get(key)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.wrong(key, f"is {shown(value)}", "expected a list of strings")
        return tuple(value)

    def table(self, key: str) -> "Table":
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, f"is {shown(value)}", f"expected {KINDS[dict]}")
        return Table(file=self.file, prefix=f"{self.prefix}{key}.", values=value)

    def wrong(self, key: str, found: str, hint: str) -> BadInput:
        return BadInput(f"{self.file}: {self.prefix}{key} {found}; {hint}")


def read_table(file: Path) -> Table:
    try:
        values = tomllib.loads(read_file(file).decode("utf-8-sig"))
    except ValueError as error:  # tomllib's own, wrong UTF-8, a number of thousands of digits
        raise BadInput(f"{file}: is not TOML: {error}") from None
    except RecursionError:
        raise BadInput(f"{file}: is not TOML that hostwheel reads: nested too deeply") from None
    return Table(file=file, prefix="", values=values)


def shown(value: object) -> str:
    """A wrong value for a message, cut where it is long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, thousands of tables
        return "too large to show"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def near(name: str, known: Iterable[str]) -> str:
    """What to say to someone who wrote a name that is not among the known ones."""
    choices = sorted(known)
    if close := difflib.get_close_matches(name, choices, n=1, cutoff=0.4):
        return f"did you mean {close[0]!r}?"
    return "known are: " + ", ".join(choices)
