"""Function names saved before stripping, matched to the stripped file by build id."""

import json
import os
import re
import tempfile
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lief import ELF

from hostwheel.artifact.binary import build_id, open_elf, text
from hostwheel.errors import BadInput

BUILD_ID = re.compile(r"(?:[0-9a-f]{2})+")
UNKNOWN = "?"

Function = tuple[int, int, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class SymbolMap:
    """(address, size in bytes, name as in the symbol table) of each function, by address."""

    build_id: str
    functions: tuple[Function, ...]


def read_symbol_map(path: Path) -> SymbolMap:
    """Read an unstripped ELF file; BadInput without a build id or a symbol table."""
    elf = open_elf(path)
    identity = build_id(elf)
    if identity is None:
        raise BadInput(f"{path}: has no build id; link it with -Wl,--build-id")
    if not elf.has(ELF.Section.TYPE.SYMTAB):
        raise BadInput(f"{path}: has no .symtab; save its symbols before it is stripped")
    return SymbolMap(build_id=identity, functions=one_per_address(functions(elf.symtab_symbols)))


def functions(symbols: Iterable[ELF.Symbol]) -> Iterator[Function]:
    """Those of a symbol table that the file itself defines."""
    kinds = (ELF.Symbol.TYPE.FUNC, ELF.Symbol.TYPE.GNU_IFUNC)
    for symbol in symbols:
        if symbol.type in kinds and symbol.shndx != 0:
            yield symbol.value, symbol.size, text(symbol.name)


def one_per_address(found: Iterable[Function]) -> tuple[Function, ...]:
    """Of several names for one address, the longest function's and the first of the alphabet."""
    best: dict[int, Function] = {}
    for function in sorted(found, key=lambda each: (each[0], -each[1], each[2])):
        best.setdefault(function[0], function)
    return tuple(best.values())


def write_symbol_map(symbols: SymbolMap, folder: Path) -> Path:
    """Write `<folder>/<build-id>.json` in one step and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{symbols.build_id}.json"
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".symbols-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            content = {"build_id": symbols.build_id, "functions": symbols.functions}
            json.dump(content, file, separators=(",", ":"))
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return target


def load_symbol_map(folder: Path, build_id: str) -> SymbolMap | None:
    """The map saved for `build_id`, None when there is none; BadInput when it is damaged."""
    if not BUILD_ID.fullmatch(build_id):
        raise BadInput(f"{build_id!r} is not a build id: expected hexadecimal digits")
    path = folder / f"{build_id}.json"
    try:
        return parsed(path.read_text(encoding="utf-8"), build_id)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f"{path}: damaged symbol map ({error}); delete it and build again"
        ) from error


def parsed(content: str, build_id: str) -> SymbolMap:
    data = json.loads(content)
    if data["build_id"] != build_id:
        raise ValueError(f"it speaks of build id {data['build_id']}")
    functions = tuple((int(start), int(size), str(name)) for start, size, name in data["functions"])
    return SymbolMap(build_id=build_id, functions=functions)


def name_at(symbols: SymbolMap, address: int) -> str:
    """The function that holds `address`, or "?". One without a size reaches to the next."""
    index = bisect_right(symbols.functions, address, key=lambda function: function[0]) - 1
    if index < 0:
        return UNKNOWN
    start, size, name = symbols.functions[index]
    return name if size == 0 or address < start + size else UNKNOWN
