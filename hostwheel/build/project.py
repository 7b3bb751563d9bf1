"""Plan + prepared source → the project folder that scikit-build-core turns into the wheel.

Upstream's Python package, metadata and licences; CMake project, guard and tool scripts are ours.
"""

import hashlib
import inspect
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tomli_w

from hostwheel.build.sbom import Compilers, sbom
from hostwheel.errors import Refused
from hostwheel.facts import cpuid, guard, inwheel
from hostwheel.facts.cuda import TOOLKITS
from hostwheel.facts.inside import BUILD_INFO
from hostwheel.plan.defines import tree
from hostwheel.plan.plan import Plan, plain

TEMPLATE = Path(__file__).parent / "template"
TEMPLATE_FILES = ("CMakeLists.txt", "guard.c", "tool.in")
IN_WHEEL = "llama_cpp/hostwheel"
SBOM = "sboms/hostwheel.cdx.json"  # below .dist-info, PEP 770

# What the wheel says of its defines: those of ggml and llama.cpp, and what the GPU code is for.
# The others name folders of the build machine.
TOLD_DEFINES = ("GGML_", "LLAMA_", "MTMD_", "CMAKE_CUDA_ARCHITECTURES")


def project_folder(plan: Plan) -> Path:
    return tree(plan.source) / "project" / plan.recipe


def build_folder(plan: Plan) -> Path:
    return tree(plan.source) / "build" / plan.recipe


def write_project(plan: Plan, src: Path, project: Path, compilers: Compilers) -> None:
    """Make `project` hold exactly what the plan says; equal files keep their times (for ninja)."""
    files = {
        **upstream_files(src),
        **our_files(plan),
        **told_files(plan, src, compilers),
        "pyproject.toml": pyproject(plan, src),
    }
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
        "llama_cpp/__init__.py": guarded((package / "__init__.py").read_text()).encode(),
        "README.md": (src / "README.md").read_bytes(),
        "LICENSE-llama-cpp-python": (src / "LICENSE.md").read_bytes(),
        "LICENSE-llama.cpp": (vendored / "LICENSE").read_bytes(),
        **{path.name: path.read_bytes() for path in sorted(vendored.glob("licenses/LICENSE-*"))},
        **{
            f"LICENSE-{path.parent.name}": path.read_bytes()
            for path in sorted((vendored / "vendor").rglob("LICENSE*"))
        },
    }


def guarded(init: str) -> str:
    """The package's `__init__.py`, with our guard before any library and our label as version."""
    rest, found = re.subn(r'^__version__ = ".*"\n', "", init, flags=re.MULTILINE)
    if found != 1:
        raise Refused(f"llama_cpp/__init__.py sets __version__ {found} times, expected once")
    return "from .hostwheel import VERSION as __version__  # refuses a wrong machine\n\n" + rest


def our_files(plan: Plan) -> Mapping[str, bytes]:
    return {
        **{name: (TEMPLATE / name).read_bytes() for name in TEMPLATE_FILES},
        "guard_features.h": guard_header(plan).encode(),
        f"{IN_WHEEL}/__init__.py": in_wheel_init(plan).encode(),
        f"{IN_WHEEL}/cpuid.py": inspect.getsource(cpuid).encode(),
        f"{IN_WHEEL}/guard.py": inspect.getsource(guard).encode(),
        f"{IN_WHEEL}/__main__.py": inspect.getsource(inwheel).encode(),
    }


def told_files(plan: Plan, src: Path, compilers: Compilers) -> Mapping[str, bytes]:
    """What the wheel says of itself: the SBOM, and build-info.json with its hash."""
    bill = sbom(plan, src / "vendor" / "llama.cpp", compilers)
    return {Path(SBOM).name: bill, BUILD_INFO: build_info(plan, compilers, bill)}


def build_info(plan: Plan, compilers: Compilers, bill: bytes) -> bytes:
    """What `python -m llama_cpp.hostwheel` prints. A wheel cannot hold its own hash."""
    host, source = plan.host, plan.source
    told = {name: value for name, value in plan.defines.items() if name.startswith(TOLD_DEFINES)}
    info = {
        "schema": 1,
        "version": plan.version,
        "label": plan.label,
        "recipe": plan.recipe,
        "host": {
            "name": host.name,
            "title": host.title,
            "glibc": host.glibc,
            "glibcxx": host.glibcxx,
        },
        "features": plan.features,
        "backends": plan.backends,
        "defines": told,
        "cuda": plan.cuda,
        "requires": plan.requires,
        "compiler": f"GCC {compilers.gcc}",
        "source": {
            "version": source.version,
            "sha256": source.sha256,
            "llama_cpp_commit": source.llama_cpp_commit,
            "patches": plan.patches,
        },
        "builder": plan.builder,
        "plan_hash": plan.hash,
        "sbom": {"file": SBOM, "sha256": hashlib.sha256(bill).hexdigest()},
    }
    return (json.dumps(plain(info), indent=1) + "\n").encode()


def guard_header(plan: Plan) -> str:
    """guard.c's table: one row per compiled-in feature, numbers from facts/cpuid.py."""
    rows = (f'X("{name}", {", ".join(map(str, cpuid.FEATURES[name]))})' for name in plan.features)
    return (
        f'#define HOSTWHEEL_BUILD "{plan.version}"\n'
        f"#define HOSTWHEEL_FEATURES(X) \\\n    " + " \\\n    ".join(rows) + "\n"
    )


def in_wheel_init(plan: Plan) -> str:
    lines = (
        '"""What hostwheel built here. Importing it refuses a machine that it does not fit."""',
        "",
        "from . import guard",
        "",
        f"VERSION = {plan.version!r}",
        f"FEATURES = {plan.features!r}",
        "",
        "if guard.is_only_asked():  # before any check: the answer is wanted where imports fail",
        "    from .__main__ import main",
        "",
        "    raise SystemExit(main())",
        "",
        "guard.check_cpu(VERSION, FEATURES)",
        *cuda_guard(plan),
        *(("guard.load_backends(VERSION)",) if len(plan.backends) > 1 else ()),
    )
    return "\n".join(lines) + "\n"


def cuda_guard(plan: Plan) -> Iterator[str]:
    if plan.cuda:
        yield f"guard.check_cuda(VERSION, {dict(cuda_libraries(plan))!r}, {plan.runpath!r})"
        yield f"guard.note_driver(VERSION, {plan.cuda.release!r}, {plan.cuda.driver!r})"


def cuda_libraries(plan: Plan) -> Mapping[str, str]:
    """The libraries of CUDA that the build needs: file name → the requirement that brings it."""
    if plan.cuda is None:
        return {}
    major = TOOLKITS[plan.cuda.release].soname
    names = (f"libcudart.so.{major}", f"libcublas.so.{major}")
    return dict(zip(names, plan.requires, strict=True))


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
            "force-include": {Path(SBOM).name: f"${{SKBUILD_METADATA_DIR}}/{SBOM}"},
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
