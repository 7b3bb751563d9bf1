"""Imports point one way only: a stage knows what comes before it, never what comes after."""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "hostwheel"
MAY_IMPORT = {
    "errors": set[str](),
    "keeper": set[str](),
    "run": {"errors"},
    "web": {"errors"},
    "facts": {"errors"},
    "plan": {"errors", "run", "facts"},
    "artifact": {"errors", "run", "facts"},
    "audit": {"errors", "run", "facts", "plan", "artifact"},
    "build": {"errors", "web", "keeper", "run", "facts", "plan", "artifact", "audit"},
    "container": {"errors", "run", "facts", "plan", "artifact", "build"},
    "bump": {"errors", "web", "run", "facts", "plan", "build"},
    "readout": {"errors"},
    "smoke": {"errors", "run", "facts", "plan", "artifact"},
    "trust": {"errors", "run", "facts", "plan", "artifact"},
    "publish": {"errors", "web", "run", "facts", "plan", "artifact", "audit", "trust"},
    "user": {
        *("errors", "web", "run", "facts", "plan", "artifact", "audit", "readout"),
        *("trust", "publish"),
    },
    "__main__": {"errors", "run"},
    "__init__": set[str](),
}


def wing(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_wings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            parts = node.module.split(".")
            names = [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
            yield from names if parts[0] == "hostwheel" else []
        elif isinstance(node, ast.Import):
            for alias in node.names:
                assert not alias.name.startswith("hostwheel"), f"{path}: use from … import"


def test_imports_point_one_way() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 20
    for path in files:
        here = wing(path)
        allowed = MAY_IMPORT[here] | {here, "__version__"}
        assert set(imported_wings(path)) <= allowed, path


def test_what_goes_into_wheels_and_bundles_needs_only_the_standard_library() -> None:
    for name in ("cpuid.py", "guard.py", "inwheel.py", "libc.py"):
        assert list(imported_wings(PACKAGE / "facts" / name)) == []
