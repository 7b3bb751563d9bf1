"""CMake list files as commands, each with the conditions around it. Nothing is evaluated."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hostwheel.errors import BadInput

# cmake-language(7). An unquoted argument may hold quoted parts (-Da="b c").
TOKEN = re.compile(
    r"""
      (?P<skip> \s+ | \#\[(?P<c>=*)\[.*?\](?P=c)\] | \#[^\n]* )
    | (?P<word> \[(?P<b>=*)\[.*?\](?P=b)\]
              | "(?:[^"\\]|\\.)*"
              | (?:[^\s()"\#\\]|\\.|(?<=\S)"(?:[^"\\]|\\.)*")+
              | [()] )
    """,
    re.VERBOSE | re.DOTALL,
)
OPENERS = ("if", "foreach", "while", "function", "macro", "block")
BRANCHES = ("elseif", "else")


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """`name` in lower case, `args` as written; `path` are the openers around it, outermost first.

    The opener of a command after else() is "else() of if(…)".
    """

    name: str
    args: tuple[str, ...]
    path: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}({' '.join(self.args)})"

    def value(self, index: int) -> str:
        """An argument without its quotes; "" where there is none."""
        return self.args[index].strip('"') if index < len(self.args) else ""


def commands(text: str, file: str) -> Iterator[Command]:
    """The commands that do something, in order. BadInput when it is not CMake."""
    path: list[str] = []
    openers: list[str] = []
    for name, args in calls(text, file):
        command = Command(name=name, args=args, path=tuple(path))
        if name in OPENERS:
            openers.append(str(command))
            path.append(str(command))
        elif name in BRANCHES and path:
            path[-1] = str(command) if name == "elseif" else f"else() of {openers[-1]}"
        elif name.removeprefix("end") in OPENERS and path:
            path.pop()
            openers.pop()
        else:
            yield command


def calls(text: str, file: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    name, depth, args = "", 0, list[str]()
    for word in words(text, file):
        depth += (word == "(") - (word == ")")
        if word == ")" and depth == 0:
            yield name, tuple(args)
            args = []
        elif depth == 0:
            name = word.lower()
        elif (word, depth) != ("(", 1):
            args.append(word)


def words(text: str, file: str) -> Iterator[str]:
    position = 0
    while position < len(text):
        token = TOKEN.match(text, position)
        if token is None:
            line = text.count("\n", 0, position) + 1
            raise BadInput(f"{file}: line {line} is no CMake that hostwheel can read")
        position = token.end()
        if token["word"]:
            yield token["word"]
