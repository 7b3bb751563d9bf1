"""The Python that a build is installed into, asked without importing anything of it."""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hostwheel.errors import BadInput, StepFailed
from hostwheel.run import capture, echo

# On a line of its own: a .pth file, or sitecustomize, may print too.
ASK = "import json, sys; print(); print(json.dumps([sys.version.split()[0], sys.path]))"


@dataclass(frozen=True, kw_only=True, slots=True)
class Python:
    """`path` are the folders that it imports from, in order, those of the user's included."""

    program: Path
    version: str
    path: tuple[Path, ...]


def find_python(given: Path | None, env: Mapping[str, str] = os.environ) -> Python:
    """`given`, or an environment's folder; else the active virtual environment's; else our own."""
    active = env.get("VIRTUAL_ENV")
    chosen = given or (Path(active) if active else Path(sys.executable))
    chosen = chosen.absolute()  # it is started from another folder; links stay as they are
    program = chosen / "bin" / "python" if chosen.is_dir() else chosen
    if not os.access(program, os.X_OK):
        raise BadInput(f"{program}: no Python there; give --python an interpreter or environment")
    version, path = asked(program)
    folders = (Path(each) for each in path if each)  # "" is the working directory
    return Python(program=program, version=version.rstrip("+"), path=tuple(folders))


def asked(program: Path) -> tuple[str, list[str]]:
    """Its version and sys.path. BadInput where it answers otherwise than a Python would."""
    try:
        said = capture((str(program), "-c", ASK), cwd=Path("/"))
        version, path = json.loads(said.strip().rpartition("\n")[2])
    except (ValueError, TypeError, StepFailed) as error:
        what = f"{program} is no Python, or one that does not start: {error}"
        raise BadInput(f"{what}\ngive --python an interpreter or environment") from None
    return str(version), [str(each) for each in path]


def pip_argv(python: Python, requirement: str) -> tuple[str, ...]:
    """Our pip, which installs into an environment that has none."""
    return (sys.executable, "-m", "pip", "--python", str(python.program), "install", requirement)


def install(python: Python, requirement: str) -> None:
    """StepFailed with pip's words when it fails; pip itself leaves nothing half-installed."""
    argv = pip_argv(python, requirement)
    echo(argv)
    print(capture(argv, env=dict(os.environ)), end="", file=sys.stderr)
