"""Made-up upstream versions: just large enough for `hostwheel bump` to compare."""

import hashlib
import io
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from hostwheel.bump.bump import Bump, bump
from hostwheel.bump.planned import Planned, ours, planned_by
from hostwheel.plan.patches import Patch
from hostwheel.plan.recipe import recipe_names
from tests.plans import ROOT, plan_for

TOP = "vendor/llama.cpp/"
GGML = f"{TOP}ggml/CMakeLists.txt"
GGML_SRC = f"{TOP}ggml/src/CMakeLists.txt"
CPU = f"{TOP}ggml/src/ggml-cpu/CMakeLists.txt"
CUDA = f"{TOP}ggml/src/ggml-cuda/CMakeLists.txt"
CUDA_CODE = f"{TOP}ggml/src/ggml-cuda/common.cu"
EXAMPLES = f"{TOP}examples/CMakeLists.txt"
SERVER = f"{TOP}tools/server/CMakeLists.txt"
LLAMA_H = f"{TOP}include/llama.h"
BINDING = "llama_cpp/llama_cpp.py"
GIT = ".git/modules/vendor/llama.cpp/"
EPOCH = 1_600_000_000
COMMIT_TEXT = f"tree 0\nauthor A <a@b> 1 +0000\ncommitter B <b@c> {EPOCH} +0200\n\nwhat\n".encode()
OBJECT = b"commit %d\0" % len(COMMIT_TEXT) + COMMIT_TEXT
COMMIT = hashlib.sha1(OBJECT).hexdigest()

PLANNED: Planned = planned_by(plan_for(name) for name in recipe_names(ROOT / "recipes"))
LIBRARIES = sorted(name for name in PLANNED.shipped if not name.startswith("ggml-cpu-"))
VARIANTS = sorted(
    name.removeprefix("ggml-cpu-") for name in PLANNED.shipped if name.startswith("ggml-cpu-")
)

TEXTS: Mapping[str, str] = {
    f"{TOP}CMakeLists.txt": "".join(f"add_library({name} x.cpp)\n" for name in LIBRARIES),
    GGML: "".join(
        f'option({name} "made up"\n    OFF) # {name}\n'
        for name in sorted(PLANNED.defines)
        if not ours(name)
    )
    + """\
option(GGML_LOUD "ggml: print more" OFF)
set(GGML_NATIVE_DEFAULT ON)
if (GGML_NATIVE OR NOT GGML_NATIVE_DEFAULT)
    set(INS_ENB OFF)
endif()
""",
    GGML_SRC: 'if (GGML_SYSTEM_ARCH STREQUAL "x86")\n'
    + "".join(f"    ggml_add_cpu_backend_variant({name} SSE42)\n" for name in [*VARIANTS, "none"])
    + "endif()\n",
    CPU: """\
if (GGML_SYSTEM_ARCH STREQUAL "ARM")
    list(APPEND ARCH_FLAGS -mcpu=native)
elseif (GGML_SYSTEM_ARCH STREQUAL "x86")
    list(APPEND GGML_CPU_SOURCES x86.c)
    if (GGML_AVX2)
        list(APPEND ARCH_FLAGS -mavx2)
    endif()
    if (MSVC)
        list(APPEND ARCH_FLAGS /arch:AVX)
    else()
        list(APPEND ARCH_FLAGS -mavx)
    endif()
endif()
""",
    CUDA: """\
# CMAKE_CUDA_ARCHITECTURES in a comment
find_package(CUDAToolkit)
if (NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    list(APPEND CMAKE_CUDA_ARCHITECTURES 86-real)
endif()
message(STATUS "building for ${CMAKE_CUDA_ARCHITECTURES}")
set(CUDA_FLAGS -use_fast_math)
target_link_libraries(ggml-cuda PRIVATE CUDA::cudart)
""",
    CUDA_CODE: """\
// cuCtxCreate(
const char * t = "cuCtxDestroy(";
void f() { CHECK(cuMemMap(1)); }
""",
    EXAMPLES: "add_executable(example x.cpp)\n",
    SERVER: """\
set(TARGET server-context)
add_library(${TARGET} STATIC server.cpp)
target_link_libraries(${TARGET} PUBLIC llama ${CMAKE_THREAD_LIBS_INIT})
""",
    LLAMA_H: """\
#define LLAMA_API __attribute__((visibility("default")))
LLAMA_API void llama_free(struct llama_context * ctx);
    DEPRECATED(LLAMA_API int32_t llama_old(void), "use llama_free");
LLAMA_API DEPRECATED(void llama_older(void), "use llama_free");
LLAMA_API FORMAT(2, 3) void llama_log(int level, const char * text);
// LLAMA_API void llama_imagined(void);
""",
    BINDING: '@ctypes_function("llama_free", [x], None)\ndef llama_free(ctx, /): ...\n',
}
FORWARDS = "+FORWARD(cuMemMap, (int x), (x))\n"
DRIVER = "--- /dev/null\n+++ b/driver.cpp\n@@ -0,0 +1 @@\n" + FORWARDS
Changes = Mapping[str, tuple[str, str]]


def texts(version: str, changes: Changes) -> Mapping[str, str]:
    """The files of a version; each change replaces an old text, which has to be there, by a new."""
    made = {
        **TEXTS,
        "llama_cpp/__init__.py": f'from .llama import *\n\n__version__ = "{version}"\n',
    }
    for name, (old, new) in changes.items():
        assert old in made[name], (name, old)
        made[name] = made[name].replace(old, new)
    return made


def git_files() -> Mapping[str, bytes]:
    return {
        f"{GIT}HEAD": b"ref: refs/heads/master\n",
        f"{GIT}packed-refs": f"# pack-refs\n{COMMIT} refs/heads/master\n".encode(),
        f"{GIT}objects/{COMMIT[:2]}/{COMMIT[2:]}": zlib.compress(OBJECT),
    }


def archive(
    folder: Path,
    version: str,
    changes: Changes | None = None,
    git: Mapping[str, bytes] | None = None,
) -> Path:
    """llama_cpp_python-VERSION.tar.gz in `folder`; `git` are the files of its .git."""
    path = folder / f"llama_cpp_python-{version}.tar.gz"
    plain = {name: text.encode() for name, text in texts(version, changes or {}).items()}
    with tarfile.open(path, "w:gz") as tar:
        for name, content in {**plain, **(git_files() if git is None else git)}.items():
            member = tarfile.TarInfo(f"llama_cpp_python-{version}/{name}")
            member.size, member.mtime = len(content), EPOCH + 7
            tar.addfile(member, io.BytesIO(content))
    return path


def patch(diff: str = DRIVER, name: str = "0001-driver.patch", versions: str = "") -> Patch:
    return Patch(name=name, text=diff, sha256="0", versions=versions)


def compared(folder: Path, changes: Changes, *patches: Patch) -> Bump:
    new, old = archive(folder, "1.1", changes), archive(folder, "1.0")
    return bump("1.1", new, old, patches or (patch(),), PLANNED)


def told(found: Bump) -> list[tuple[str, str, bool]]:
    return [(finding.area, finding.name, finding.unplanned) for finding in found.findings]
