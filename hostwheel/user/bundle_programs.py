"""The programs of a bundle: install.py, run-server.sh, and the modules that install.py imports."""

from collections.abc import Mapping
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
OWN = PACKAGE / "user" / "carried"
STARTED = ("install.py", "run-server.sh")  # by people, in the bundle's top folder
CARRIED = (
    *("__init__.py", "errors.py", "user/__init__.py"),
    *("facts/__init__.py", "facts/cpuid.py", "facts/libc.py"),
)


def programs() -> Mapping[str, Path]:
    """Name in the bundle, at the paths that the imports name → the file here."""
    modules = (path for path in OWN.glob("*.py") if path.name not in STARTED)
    return {
        **{name: OWN / name for name in STARTED},
        **{f"hostwheel/{name}": PACKAGE / name for name in CARRIED},
        **{f"hostwheel/user/carried/{path.name}": path for path in modules},
    }
