"""Every CMake variable of a build, by name: nothing is left to a default."""

from collections.abc import Mapping
from pathlib import Path

from hostwheel.facts import isa
from hostwheel.facts.cuda import Toolkit, machine_code_for
from hostwheel.plan.recipe import Recipe, Source

# nvcc's output depends on the absolute path of its input (measured, also after stripping), so
# every build, in every checkout and container, happens below this one folder.
ROOT = Path("/var/tmp/hostwheel")

TOOLS = ("llama-server", "llama-bench", "llama-quantize", "llama-tokenize")
LIBRARIES = (
    *("llama", "llama-common", "ggml", "ggml-base", "mtmd"),
    *("llama-server-impl", "llama-bench-impl", "llama-quantize-impl"),
)

PREFIX_MAP = f"-ffile-prefix-map={ROOT}=."

# What ggml's and llama.cpp's CMake files would otherwise decide by looking at the machine, or
# switch on by default. One reason each, where it is not plain from the name.
FIXED_DEFINES: Mapping[str, str] = {
    "BUILD_SHARED_LIBS": "ON",
    "CMAKE_EXPORT_COMPILE_COMMANDS": "ON",  # what PLAN002 reads
    "CMAKE_PLATFORM_NO_VERSIONED_SONAME": "ON",  # a wheel has no symlinks: each library once
    "CMAKE_C_COMPILER_LAUNCHER": "sccache",
    "CMAKE_CXX_COMPILER_LAUNCHER": "sccache",
    "CMAKE_C_FLAGS": PREFIX_MAP,
    "CMAKE_CXX_FLAGS": PREFIX_MAP,
    "CMAKE_SHARED_LINKER_FLAGS": "-Wl,--build-id=sha1",  # finds the symbol map of a stripped file
    "CMAKE_EXE_LINKER_FLAGS": "-Wl,--build-id=sha1",
    "GGML_NATIVE": "OFF",  # ON ignores every option below and passes -march=native
    "GGML_CPU": "ON",
    "GGML_CPU_HBM": "OFF",
    "GGML_CPU_KLEIDIAI": "OFF",
    "GGML_CPU_REPACK": "ON",
    "GGML_LLAMAFILE": "ON",
    "GGML_LTO": "OFF",
    "GGML_STATIC": "OFF",
    "GGML_CCACHE": "OFF",  # ggml would set a launcher of its own, which breaks sccache with nvcc
    "GGML_OPENMP": "OFF",
    "GGML_BLAS": "OFF",
    "GGML_RPC": "OFF",
    "GGML_VULKAN": "OFF",
    "GGML_SCHED_MAX_COPIES": "4",
    "GIT_EXE": "OFF",  # ggml asks any git around it for "its" commit
    "LLAMA_BUILD_COMMON": "ON",
    "LLAMA_BUILD_TOOLS": "ON",
    "LLAMA_BUILD_SERVER": "ON",
    "LLAMA_BUILD_APP": "OFF",
    "LLAMA_BUILD_EXAMPLES": "OFF",
    "LLAMA_BUILD_TESTS": "OFF",
    "LLAMA_BUILD_UI": "OFF",
    "LLAMA_USE_PREBUILT_UI": "OFF",  # ON downloads the web UI during the build
    "LLAMA_BUILD_NUMBER": "0",
    "LLAMA_LLGUIDANCE": "OFF",
    "LLAMA_OPENSSL": "OFF",  # ON links the build machine's libssl
    "LLAMA_SUBPROCESS": "ON",
    "LLAMA_TOOLS_INSTALL": "OFF",  # ours is the only install rule, see build/project
    "MTMD_VIDEO": "ON",
}


def defines(
    recipe: Recipe, toolkit: Toolkit | None, options: tuple[isa.Option, ...]
) -> Mapping[str, str]:
    """Every CMake variable, as a flat name → value table."""
    chosen = {option.name for option in options}
    return {
        **FIXED_DEFINES,
        **{option.name: on_off(option.name in chosen) for option in isa.OPTIONS},
        "LLAMA_BUILD_COMMIT": recipe.source.llama_cpp_commit,
        "HOSTWHEEL_LLAMA_CPP": str(tree(recipe.source) / "src" / "vendor" / "llama.cpp"),
        "HOSTWHEEL_UNITE": on_off(not recipe.everything),
        "HOSTWHEEL_RUNPATH": ";".join(runpath(toolkit)),
        "HOSTWHEEL_LIBRARIES": ";".join(libraries(recipe, toolkit)),
        "HOSTWHEEL_TOOLS": ";".join(TOOLS),
        "GGML_BACKEND_DL": on_off(recipe.variants),
        "GGML_CPU_ALL_VARIANTS": on_off(recipe.variants),
        "GGML_CUDA": on_off(toolkit is not None),
        **(cuda_defines(recipe, toolkit) if toolkit else {}),
    }


def cuda_defines(recipe: Recipe, toolkit: Toolkit) -> Mapping[str, str]:
    gpu = recipe.host.gpu
    assert gpu is not None, "a CUDA recipe has a host with a GPU: see check_gpu"
    options = (*toolkit.repeatable, *(toolkit.quick if recipe.draft else ()))
    return {
        "CMAKE_CUDA_ARCHITECTURES": f"{machine_code_for(gpu.compute)}-real",
        "CMAKE_CUDA_COMPILER_LAUNCHER": "sccache",
        "CMAKE_CUDA_FLAGS": " ".join((f"-Xcompiler={PREFIX_MAP}", *options)),
        "HOSTWHEEL_FA_TILE_ALL": on_off(recipe.everything),
        "GGML_CUDA_COMPRESSION_MODE": toolkit.compression,
        "GGML_CUDA_FA": on_off(not recipe.draft),
        "GGML_CUDA_FA_ALL_QUANTS": "OFF",
        "GGML_CUDA_FA_QUANTS": "q4_0-q4_0;q8_0-q8_0;f16-f16;bf16-bf16",
        "GGML_CUDA_FORCE_CUBLAS": "OFF",
        "GGML_CUDA_FORCE_MMQ": "OFF",
        "GGML_CUDA_GRAPHS": "ON",
        "GGML_CUDA_NCCL": "OFF",  # ON links libnccl without a word where an image has it
        "GGML_CUDA_NO_PEER_COPY": "OFF",
        "GGML_CUDA_NO_VMM": "OFF",
    }


def libraries(recipe: Recipe, toolkit: Toolkit | None) -> tuple[str, ...]:
    """The CMake targets that are shipped beside the tools, each as `lib<name>.so`."""
    variants = tuple(f"ggml-cpu-{tag}" for tag in isa.VARIANTS)
    cpu = variants if recipe.variants else ("ggml-cpu",)
    return (*LIBRARIES, *cpu, *(("ggml-cuda",) if toolkit else ()))


def runpath(toolkit: Toolkit | None) -> tuple[str, ...]:
    """From `llama_cpp/lib`: itself, then where the `nvidia-*` wheels put their libraries."""
    folders = toolkit.folders if toolkit else ()
    return ("$ORIGIN", *(f"$ORIGIN/../../{folder}" for folder in folders))


def tree(source: Source) -> Path:
    """The one folder of an upstream version: `src` (prepared), `project` and `build` by recipe."""
    return ROOT / f"llama_cpp_python-{source.version}"


def toolkit_root(version: str) -> Path:
    return ROOT / f"cuda-{version}"


def on_off(value: bool) -> str:
    return "ON" if value else "OFF"
