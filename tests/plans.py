"""Plans of this checkout's recipes, and small real wheels of the kind that such a plan asks for."""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest

from hostwheel.build.project import SBOM, build_info
from hostwheel.build.sbom import Compilers
from hostwheel.facts.inside import BUILD_INFO
from hostwheel.plan.data import file_hashes, find_data
from hostwheel.plan.defines import TOOLS
from hostwheel.plan.patches import patch_hashes
from hostwheel.plan.plan import Plan, make_plan
from hostwheel.plan.recipe import load_recipe

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
LIB = "llama_cpp/lib"

# One instruction for each option of an AVX2 plan, by that option's name.
PROOFS: Mapping[str, str] = {
    "GGML_SSE42": "pshufb %xmm1, %xmm0",
    "GGML_AVX": "vaddps %ymm0, %ymm0, %ymm0",
    "GGML_F16C": "vcvtph2ps %xmm0, %ymm0",
    "GGML_FMA": "vfmadd231ps %ymm0, %ymm0, %ymm0",
    "GGML_BMI2": "pdep %rax, %rax, %rax",
    "GGML_AVX2": "vpaddd %ymm0, %ymm0, %ymm0",
}
BILL = b'{"bomFormat": "CycloneDX"}\n'
COMPILERS = Compilers(gcc="12.2.0", cuda={})
AVX512 = "vpaddd %zmm0, %zmm0, %zmm0"


@cache
def plan_for(recipe: str) -> Plan:
    """The plan of a recipe of this checkout."""
    data = find_data(ROOT / "recipes")
    loaded = load_recipe(recipe, data.recipes)
    patches = patch_hashes(data.patches, loaded.source.version)
    return make_plan(loaded, patches, file_hashes(data.locks, "*.txt"))


def need(program: str, hint: str) -> str:
    """A program of this Python's environment or on PATH. Without it CI fails, others skip."""
    found = shutil.which(program, path=f"{BIN}{os.pathsep}{os.environ['PATH']}")
    return found or lacking(f"needs {program}: {hint}")


def lacking(what: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(what)
    pytest.skip(what)


def need_nvcc() -> str:
    found = next(Path("/var/tmp/hostwheel").glob("cuda-*/bin/nvcc"), None)
    return str(found or lacking("needs nvcc at /var/tmp/hostwheel/cuda-*/bin"))


def link(target: Path, code: str = "", *flags: str, runpath: str) -> Path:
    """A small ELF file that holds `code` (assembler): a program, or a library if named *.so."""
    target.parent.mkdir(parents=True, exist_ok=True)
    source = target.parent / f"{target.name}.c"
    source.write_text(f'const char name[] = "{target.name}";\n{inline(code)}int main() {{}}\n')
    kind = ("-shared", f"-Wl,-soname,{target.name}") if target.suffix == ".so" else ()
    search = ("-Wl,--enable-new-dtags", f"-Wl,-rpath,{runpath}") if runpath else ()
    how = ("gcc", "-O1", "-fPIC", "-Wl,--build-id=sha1", *kind, *search)
    argv = (*how, str(source), "-o", str(target), *flags)
    subprocess.run(argv, check=True)
    return target


def inline(code: str) -> str:
    escaped = code.replace("\n", "\\n")
    return f'__asm__(".text\\n{escaped}\\n");\n' if code else ""


def runpath_of(plan: Plan) -> str:
    return plan.defines["HOSTWHEEL_RUNPATH"].replace(";", ":")


def wheel_files(plan: Plan, folder: Path) -> dict[str, bytes]:
    """What is in a wheel of an AVX2 plan, apart from the CUDA backend. Compiled in `folder`."""
    runpath = runpath_of(plan)
    base = link(folder / "libggml-base.so", runpath=runpath)
    files = {f"{LIB}/{base.name}": base.read_bytes()}
    for name in {*plan_for("cpu-avx2").libraries} - {"ggml-base"}:
        code = "\n".join(PROOFS.values()) if name == "ggml-cpu" else ""
        needs_base = ("-Wl,--no-as-needed", str(base))
        library = link(folder / f"lib{name}.so", code, *needs_base, runpath=runpath)
        files[f"{LIB}/{library.name}"] = library.read_bytes()
    for tool in TOOLS:
        files[f"{LIB}/{tool}"] = link(folder / tool, runpath=runpath).read_bytes()
    return files | text_files(plan)


def text_files(plan: Plan) -> dict[str, bytes]:
    base = f"llama_cpp_python-{plan.version}"
    requires = "".join(f"Requires-Dist: {requirement}\n" for requirement in plan.requires)
    metadata = f"Name: llama_cpp_python\nVersion: {plan.version}\n{requires}"
    texts = {
        "llama_cpp/__init__.py": "from .hostwheel import VERSION as __version__\n",
        "llama_cpp/py.typed": "",
        "llama_cpp/server/py.typed": "",
        **{f"{base}.data/scripts/{tool}": f"#!python\n# starts {tool}\n" for tool in TOOLS},
        f"{base}.dist-info/METADATA": f"Metadata-Version: 2.2\n{metadata}",
        f"{base}.dist-info/WHEEL": f"Wheel-Version: 1.0\nTag: py3-none-{plan.platform_tag}\n",
        f"{base}.dist-info/licenses/LICENSE-llama.cpp": "MIT License of llama.cpp\n",
        f"{base}.dist-info/licenses/LICENSE-linenoise": "BSD License of linenoise\n",
        f"{base}.dist-info/{SBOM}": BILL.decode(),
        BUILD_INFO: build_info(plan, COMPILERS, BILL).decode(),
    }
    return {name: text.encode() for name, text in texts.items()}


def write_wheel(path: Path, files: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


UPSTREAM_PROJECT = """\
[build-system]
requires = ["scikit-build-core[pyproject]>=0.9.2"]
build-backend = "scikit_build_core.build"

[project]
name = "llama_cpp_python"
dynamic = ["version"]
readme = "README.md"
dependencies = ["numpy>=1.20.0"]
requires-python = ">=3.8"

[tool.scikit-build]
wheel.packages = ["llama_cpp"]

[tool.scikit-build.metadata.version]
provider = "scikit_build_core.metadata.regex"
"""


def upstream_source(folder: Path) -> Path:
    """A prepared source as far as the project folder is made of it."""
    for name, text in {
        "pyproject.toml": UPSTREAM_PROJECT,
        "README.md": "# llama-cpp-python\n",
        "LICENSE.md": "MIT License of llama-cpp-python\n",
        "CMakeLists.txt": "upstream's, which is not used\n",
        "llama_cpp/__init__.py": "print('mapped')\n\n__version__ = \"0.3.36\"\n",
        "llama_cpp/server/app.py": "app = None\n",
        "llama_cpp/py.typed": "",
        "llama_cpp/lib/.gitkeep": "",
        "vendor/llama.cpp/LICENSE": "MIT License of llama.cpp\n",
        "vendor/llama.cpp/licenses/LICENSE-linenoise": "BSD License of linenoise\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder
