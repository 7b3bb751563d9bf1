"""A draft of a10g (sm_86, FlashAttention off), end to end on a machine without a GPU."""

import ctypes
import json
import shlex
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from hostwheel.artifact.binary import read_binary
from hostwheel.artifact.fatbin import read_fatbin
from smoke.recorded import ANSWER, QUESTION
from tests.answers import ASK
from tests.builds import CHECKOUT, Built, Installed, build

pytestmark = [pytest.mark.build, pytest.mark.timeout(5400)]

LABEL = "0.3.36+cu130.sm86.avx2.draft"
BUILD = Path("/var/tmp/hostwheel/llama_cpp_python-0.3.36/build/a10g-draft")
NO_DRIVER = f"llama_cpp {LABEL}: no NVIDIA driver on this machine"


@pytest.fixture(scope="module")
def cuda_library(a10g_draft: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cuda")
    with zipfile.ZipFile(a10g_draft.wheel) as wheel:
        return Path(wheel.extract("llama_cpp/lib/libggml-cuda.so", folder))


def has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def test_the_wheel_holds_machine_code_for_sm_86_and_nothing_else(
    a10g_draft: Built, cuda_library: Path
) -> None:
    """One image for each file that nvcc compiled."""
    images = read_fatbin(cuda_library)
    files = [each["file"] for each in a10g_draft.evidence["compile_commands"]]
    assert len(images) == len([name for name in files if name.endswith(".cu")]) > 20
    assert {(image.kind, image.sm) for image in images} == {("cubin", "86")}


def test_no_driver_function_is_left_for_the_loader(cuda_library: Path) -> None:
    binary = read_binary(cuda_library)
    assert not [name for name in binary.imports if name.startswith("cu") and name[2].isupper()]
    assert set(binary.needed) >= {"libcudart.so.13", "libcublas.so.13"}
    unwanted = ("libcuda.so", "libnccl", "libssl", "libgomp", "libcurl")
    assert not [name for name in binary.needed if name.startswith(unwanted)]
    assert binary.runpath == ("$ORIGIN", "$ORIGIN/../../nvidia/cu13/lib")


def test_the_label_and_the_requirements_say_cuda_13(a10g_draft: Built) -> None:
    assert a10g_draft.wheel.name.startswith(f"llama_cpp_python-{LABEL}-py3-none-")
    base = f"llama_cpp_python-{LABEL}.dist-info"
    with zipfile.ZipFile(a10g_draft.wheel) as wheel:
        metadata = wheel.read(f"{base}/METADATA").decode()
    assert f"Version: {LABEL}\n" in metadata
    assert "Requires-Dist: nvidia-cuda-runtime<14,>=13\n" in metadata
    assert "Requires-Dist: nvidia-cublas<14,>=13\n" in metadata


def test_the_locked_toolkit_and_cmake_were_used_and_no_other(a10g_draft: Built) -> None:
    cache = a10g_draft.evidence["cmake_cache"]
    assert cache["CMAKE_CUDA_COMPILER"] == "/var/tmp/hostwheel/cuda-13.0.2/bin/nvcc"
    assert cache["CMAKE_CACHE_MAJOR_VERSION"] == "4"
    assert cache["CMAKE_CUDA_ARCHITECTURES"] == "86-real"
    assert a10g_draft.evidence["toolkit"]["nvidia-cuda-nvcc"] == "13.0.88"


def test_it_imports_without_a_driver_and_says_so_in_one_line(
    a10g_draft_installed: Installed,
) -> None:
    done = a10g_draft_installed.run(
        "python", "-c", "import llama_cpp; print(llama_cpp.__version__)"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == LABEL
    assert done.stderr.count(NO_DRIVER) == (0 if has_driver() else 1)


def test_it_answers_on_the_cpu_without_a_driver(
    a10g_draft_installed: Installed, smollm2: Path
) -> None:
    done = a10g_draft_installed.run("python", "-c", ASK, smollm2, QUESTION)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ANSWER


def compiled_again(folder: Path, name: str, without: str = "") -> tuple[bytes, bytes]:
    """A file's object as the build left it and one compiled now, without the cache; stripped."""
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    entry = next(each for each in entries if each["file"].endswith(name))
    argv = shlex.split(entry["command"].replace(without, ""))
    place = argv.index("-o") + 1
    built, again = BUILD / argv[place], folder / "again.o"
    argv[place] = str(again)
    subprocess.run(argv, cwd=BUILD, check=True, env={"PATH": "/usr/bin:/bin"})
    return stripped(built, folder), stripped(again, folder)


def stripped(file: Path, folder: Path) -> bytes:
    target = folder / f"{file.name}.stripped"
    subprocess.run(("strip", "--strip-unneeded", "-o", target, file), check=True)
    return target.read_bytes()


def test_a_cuda_file_compiled_again_gives_the_same_bytes(a10g_draft: Built, tmp_path: Path) -> None:
    """The whole wheel twice is too much for each run: `hostwheel build --check-reproducible`."""
    built, again = compiled_again(tmp_path, "unity_mmf_0_cu.cu")
    assert built == again


def test_without_fixed_names_it_would_not(a10g_draft: Built, tmp_path: Path) -> None:
    built, again = compiled_again(tmp_path, "unity_mmf_0_cu.cu", without="-frandom-seed=0")
    assert built != again


def test_an_emptied_tree_takes_all_objects_from_the_cache(
    a10g_draft: Built, tmp_path: Path
) -> None:
    """F2, F4: nvcc's objects too; and the wheel is the same, byte for byte."""
    shutil.rmtree(BUILD)
    again = build(str(CHECKOUT / "tests" / "data" / "a10g-draft.toml"), tmp_path)
    counts = again.evidence["compiler_cache"]
    files = [str(each["file"]) for each in a10g_draft.evidence["compile_commands"]]
    # sccache takes nvcc apart: the call itself is counted, its parts are what hits.
    nvcc = len([name for name in files if name.endswith(".cu")])
    assert counts["hits"] + counts["misses"] == counts["compilations"] - nvcc > 250
    assert counts["misses"] <= 1  # seen after a cold build: one object is not found again
    assert again.wheel.read_bytes() == a10g_draft.wheel.read_bytes()
