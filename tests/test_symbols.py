import subprocess
from pathlib import Path

import pytest

from hostwheel.artifact.binary import read_binary
from hostwheel.artifact.symbols import (
    SymbolMap,
    load_symbol_map,
    name_at,
    read_symbol_map,
    write_symbol_map,
)
from hostwheel.errors import BadInput

SOURCE = """
int counter;
static __attribute__((noinline)) int hidden(int x) { return x * 7 + counter; }
int shown(int x) { return hidden(x) + 1; }
int also_shown(int x) __attribute__((alias("shown")));
"""


def library(folder: Path, *flags: str) -> Path:
    code, result = folder / "x.c", folder / "libx.so"
    code.write_text(SOURCE)
    command: list[str | Path] = [
        "gcc",
        "-O1",
        "-fPIC",
        "-shared",
        "-nostdlib",
        code,
        "-o",
        result,
        *flags,
    ]
    subprocess.run(command, check=True)
    return result


def test_map_names_static_functions_once_per_address(tmp_path: Path) -> None:
    symbols = read_symbol_map(library(tmp_path, "-Wl,--build-id=sha1"))
    names = [name for _, _, name in symbols.functions]
    assert sorted(names) == ["also_shown", "hidden"]  # not counter; shown has the same address
    assert list(symbols.functions) == sorted(symbols.functions)
    start, size, name = symbols.functions[0]
    assert (name_at(symbols, start), name_at(symbols, start + size - 1)) == (name, name)


def test_map_survives_stripping(tmp_path: Path) -> None:
    path = library(tmp_path, "-Wl,--build-id=sha1")
    symbols = read_symbol_map(path)
    written = write_symbol_map(symbols, tmp_path / "maps")
    subprocess.run(["strip", path], check=True)
    identity = read_binary(path).build_id
    assert identity is not None
    assert written == tmp_path / "maps" / f"{identity}.json"
    assert load_symbol_map(tmp_path / "maps", identity) == symbols
    assert [each.name for each in written.parent.iterdir()] == [written.name]
    with pytest.raises(BadInput, match=r"no \.symtab"):
        read_symbol_map(path)


def test_names_at_the_edges() -> None:
    functions = ((16, 8, "first"), (32, 0, "assembly"), (48, 4, "last"))
    symbols = SymbolMap(build_id="aa", functions=functions)
    names = [name_at(symbols, address) for address in (0, 16, 23, 24, 32, 47, 48, 51, 52)]
    assert names == ["?", "first", "first", "?", "assembly", "assembly", "last", "last", "?"]
    assert name_at(SymbolMap(build_id="aa", functions=()), 16) == "?"


def test_file_without_build_id_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"libx\.so: has no build id"):
        read_symbol_map(library(tmp_path, "-Wl,--build-id=none"))


def test_absent_map_is_none(tmp_path: Path) -> None:
    assert load_symbol_map(tmp_path, "ab12") is None


@pytest.mark.parametrize("build_id", ["", "../ab", "AB", "abc"])
def test_what_is_no_build_id_is_refused(tmp_path: Path, build_id: str) -> None:
    with pytest.raises(BadInput, match="not a build id"):
        load_symbol_map(tmp_path, build_id)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"build_id": "ab12"}',
        '{"build_id": "ab12", "functions": [[1, 2]]}',
        '{"build_id": "ffff", "functions": []}',
    ],
)
def test_damaged_map_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "ab12.json").write_text(content)
    with pytest.raises(BadInput, match=r"ab12\.json: damaged symbol map"):
        load_symbol_map(tmp_path, "ab12")


def test_failed_write_leaves_nothing(tmp_path: Path) -> None:
    broken = SymbolMap(build_id="ab12", functions=())
    object.__setattr__(broken, "functions", {object()})
    with pytest.raises(TypeError):
        write_symbol_map(broken, tmp_path)
    assert list(tmp_path.iterdir()) == []
