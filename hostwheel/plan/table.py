"""A TOML table whose every wrong key or value is an error that names file, key and what fits."""

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from hostwheel.errors import BadInput

T = TypeVar("T", str, bool, int)

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
            raise self.wrong(key, f"is {value!r}", f"expected {KINDS[kind]}")
        return value

    def need(self, key: str, kind: type[T]) -> T:
        value = self.get(key, kind)
        if value is None:
            raise self.wrong(key, "is missing", f"expected {KINDS[kind]}")
        return value

    def matching(self, key: str, pattern: str, example: str) -> str:
        """A needed string of a given form; `example` is shown to whoever got it wrong."""
        value = self.need(key, str)
        if not re.fullmatch(pattern, value):
            raise self.wrong(key, f"is {value!r}", f"expected something like {example!r}")
        return value

    def strings(self, key: str) -> tuple[str, ...]:
        value = self.values.get(key)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.wrong(key, f"is {value!r}", "expected a list of strings")
        return tuple(value)

    def table(self, key: str) -> "Table":
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, f"is {value!r}", f"expected {KINDS[dict]}")
        return Table(file=self.file, prefix=f"{self.prefix}{key}.", values=value)

    def wrong(self, key: str, found: str, hint: str) -> BadInput:
        return BadInput(f"{self.file}: {self.prefix}{key} {found}; {hint}")


def read_table(file: Path) -> Table:
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{file}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{file}: is not TOML: {error}") from None
    return Table(file=file, prefix="", values=values)


def near(name: str, known: Iterable[str]) -> str:
    """What to say to someone who wrote a name that is not among the known ones."""
    choices = sorted(known)
    if close := difflib.get_close_matches(name, choices, n=1, cutoff=0.4):
        return f"did you mean {close[0]!r}?"
    return "known are: " + ", ".join(choices)
