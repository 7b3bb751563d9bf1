"""C functions: what the headers export, what the Python binding binds, what ggml-cuda calls."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from hostwheel.bump.finding import Finding
from hostwheel.errors import BadInput

HEADERS = ("include/*.h", "ggml/include/*.h", "tools/mtmd/mtmd.h", "tools/mtmd/mtmd-helper.h")
TOLD = ("llama.h", "ggml.h", "mtmd.h", "mtmd-helper.h")  # whose new functions are listed
COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:[^"\\\n]|\\.)*")', re.DOTALL)
DEPRECATED = re.compile(r"\bDEPRECATED\(")  # around a declaration, or behind its LLAMA_API
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
ATTRIBUTE = re.compile(r"\b[A-Z_]+\(\d[^()]*\)")
EXPORTED = re.compile(r"\b(?:LLAMA|GGML|GGML_BACKEND|MTMD)_API\b[^;(){}]*?(\w+)\s*\(")
DRIVER_CALL = re.compile(r"\b(cu[A-Z]\w+)\s*\(")
DRIVER_NAME = re.compile(r"^\+.*?\b(cu[A-Z]\w+)\b", re.MULTILINE)
SOURCES = (".cu", ".cuh", ".cpp", ".h")


def code(text: str) -> str:
    """C or C++ without comments and strings."""
    return COMMENT.sub(" ", text)


def exported(llama_cpp: Path) -> dict[str, str]:
    """Exported function → file name of its header."""
    found = {}
    for pattern in HEADERS:
        for header in sorted(llama_cpp.glob(pattern)):
            text = DIRECTIVE.sub("", code(header.read_text(errors="replace")))
            plain = ATTRIBUTE.sub(" ", DEPRECATED.sub(" ", text))
            found.update(dict.fromkeys(EXPORTED.findall(plain), header.name))
    return found


def bound(package: Path) -> frozenset[str]:
    """The functions that the binding looks up at import: @ctypes_function("name", …)."""
    found = set[str]()
    for file in sorted(package.glob("*.py")):
        try:
            tree = ast.parse(file.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError) as error:
            raise BadInput(f"{file}: is not Python: {error}") from None
        found.update(name for node in ast.walk(tree) for name in bound_by(node))
    return frozenset(found)


def bound_by(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
        name = node.args[0]
        if node.func.id == "ctypes_function" and isinstance(name, ast.Constant):
            yield str(name.value)


def driver_calls(llama_cpp: Path) -> frozenset[str]:
    """The functions of libcuda that ggml-cuda calls."""
    folder = llama_cpp / "ggml" / "src" / "ggml-cuda"
    files = (path for path in folder.rglob("*") if path.suffix in SOURCES)
    found = (DRIVER_CALL.findall(code(path.read_text(errors="replace"))) for path in files)
    return frozenset(name for names in found for name in names)


def forwarded(patches: Iterable[str]) -> frozenset[str]:
    """The functions of libcuda named in the lines that patches add."""
    return frozenset(name for text in patches for name in DRIVER_NAME.findall(text))


def compare_symbols(
    before: tuple[dict[str, str], frozenset[str]], after: tuple[dict[str, str], frozenset[str]]
) -> Iterator[Finding]:
    """Each is (exported, bound). A function that is bound but not exported fails the import."""
    for name in sorted((after[1] - {*after[0]}) - (before[1] - {*before[0]})):
        what = "bound by the Python package, but no header exports it"
        yield Finding(area="symbol", name=name, what=what, unplanned=True)
    for name in sorted({*after[0]} - {*before[0]} - after[1]):
        if after[0][name] in TOLD:
            what = f"new in {after[0][name]}; the Python package does not bind it"
            yield Finding(area="symbol", name=name, what=what, unplanned=False)
    for name in sorted({*before[0]} - {*after[0]} - after[1]):
        if before[0][name] in TOLD:
            what = f"no longer exported by {before[0][name]}"
            yield Finding(area="symbol", name=name, what=what, unplanned=False)


def compare_driver(calls: frozenset[str], known: frozenset[str]) -> Iterator[Finding]:
    for name in sorted(calls - known):
        what = "ggml-cuda calls it; no patch forwards it, so libcuda would be NEEDED or undefined"
        yield Finding(area="driver", name=name, what=what, unplanned=True)
    for name in sorted(known - calls):
        what = "a patch forwards it, but ggml-cuda does not call it"
        yield Finding(area="driver", name=name, what=what, unplanned=False)
