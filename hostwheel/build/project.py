"""Plan + prepared source → the project folder that scikit-build-core turns into the wheel.

Upstream's Python package, metadata and licences; CMake project, guard and tool scripts are ours.
"""

import inspect
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from hostwheel.facts import cpuid, guard
from hostwheel.plan.defines import tree
from hostwheel.plan.plan import Plan

TEMPLATE = Path(__file__).parent / "template"
TEMPLATE_FILES = ("CMakeLists.txt", "guard.c", "tool.py.in")
IN_WHEEL = "llama_cpp/hostwheel"


def project_folder(plan: Plan) -> Path:
    return tree(plan.source) / "project" / plan.recipe


def build_folder(plan: Plan) -> Path:
    return tree(plan.source) / "build" / plan.recipe


def write_project(plan: Plan, src: Path, project: Path) -> None:
    """Make `project` hold exactly what the plan says; equal files keep their times (for ninja)."""
    files = {**upstream_files(src), **our_files(plan), "pyproject.toml": pyproject(plan, src)}
    for name, content in files.items():
        path = project / name
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    for path in project.rglob("*"):
        if path.is_file() and str(path.relative_to(project)) not in files:
            path.unlink()


def upstream_files(src: Path) -> Mapping[str, bytes]:
    package = src / "llama_cpp"
    python = (
        path for path in package.rglob("*") if path.suffix == ".py" or path.name == "py.typed"
    )
    vendored = src / "vendor" / "llama.cpp"
    return {
        **{str(path.relative_to(src)): path.read_bytes() for path in sorted(python)},
        "README.md": (src / "README.md").read_bytes(),
        "LICENSE-llama-cpp-python": (src / "LICENSE.md").read_bytes(),
        "LICENSE-llama.cpp": (vendored / "LICENSE").read_bytes(),
        **{path.name: path.read_bytes() for path in sorted(vendored.glob("licenses/LICENSE-*"))},
    }


def our_files(plan: Plan) -> Mapping[str, bytes]:
    return {
        **{name: (TEMPLATE / name).read_bytes() for name in TEMPLATE_FILES},
        "guard_features.h": guard_header(plan).encode(),
        f"{IN_WHEEL}/__init__.py": in_wheel_init(plan).encode(),
        f"{IN_WHEEL}/cpuid.py": inspect.getsource(cpuid).encode(),
        f"{IN_WHEEL}/guard.py": inspect.getsource(guard).encode(),
    }


def guard_header(plan: Plan) -> str:
    """guard.c's table: one row per compiled-in feature, numbers from facts/cpuid.py."""
    rows = (f'X("{name}", {", ".join(map(str, cpuid.FEATURES[name]))})' for name in plan.features)
    return (
        f'#define HOSTWHEEL_BUILD "{plan.version}"\n'
        f"#define HOSTWHEEL_FEATURES(X) \\\n    " + " \\\n    ".join(rows) + "\n"
    )


def in_wheel_init(plan: Plan) -> str:
    lines = (
        '"""What hostwheel built here. Importing it refuses a CPU that the build does not fit."""',
        "",
        "from . import guard",
        "",
        f"VERSION = {plan.version!r}",
        f"FEATURES = {plan.features!r}",
        "",
        "guard.check_cpu(VERSION, FEATURES)",
        *(("guard.note_missing_driver(VERSION)",) if plan.cuda else ()),
    )
    return "\n".join(lines) + "\n"


def pyproject(plan: Plan, src: Path) -> bytes:
    """Upstream's metadata with our version and requirements, and a closed set of build settings."""
    project: dict[str, Any] = tomllib.loads((src / "pyproject.toml").read_text())["project"]
    del project["dynamic"]
    project["version"] = plan.version
    project["dependencies"] = [*project["dependencies"], *plan.requires]
    tools = {
        "minimum-version": "1.1",
        "build-dir": str(build_folder(plan)),
        "cmake": {
            "build-type": "Release",
            "args": [f"-D{name}={value}" for name, value in plan.defines.items()],
        },
        "build": {"targets": [*plan.libraries, *plan.tools], "verbose": False},
        "install": {"components": ["hostwheel"], "strip": True},
        "wheel": {
            "packages": ["llama_cpp"],
            "reproducible": True,
            "license-files": ["LICENSE-*"],
        },
    }
    document = {
        "build-system": {
            "requires": ["scikit-build-core"],
            "build-backend": "scikit_build_core.build",
        },
        "project": project,
        "tool": {"scikit-build": tools},
    }
    return tomli_w.dumps(document).encode()
