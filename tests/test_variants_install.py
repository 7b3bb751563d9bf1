"""What uv makes of wheel variants, and what those make of them who know none."""

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from hostwheel.facts.cpuid import missing
from hostwheel.publish.catalog import Needs
from hostwheel.publish.properties import LEVELS
from hostwheel.publish.readback import clean
from hostwheel.run import capture
from tests.audits import pack
from tests.buckets import (
    AVX2,
    AVX512,
    Server,
    entry_of,
    needs,
    objects,
    serving,
    tiny_wheel,
    with_variant,
)

PROJECT = "llama-cpp-python"
V3 = tuple(feature for _, added in LEVELS[:2] for feature in added)
UV = ("uv", "pip", "install", "--no-config")
PIP = ("pip", "install", "--disable-pip-version-check")
AWARE = ("--preview-features", "wheel-variants")
CUDA = "nvidia-cuda-runtime"
RUNTIME = {
    "nvidia_runtime.py": b"",
    "nvidia_cuda_runtime-13.0.dist-info/METADATA": (
        b"Metadata-Version: 2.1\nName: nvidia-cuda-runtime\nVersion: 13.0\n"
    ),
    "nvidia_cuda_runtime-13.0.dist-info/WHEEL": (
        b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    ),
}
RECIPES: Mapping[str, tuple[str, Needs, str]] = {
    "cpu-any": ("cpu.any", needs(features=()), ""),
    "cpu-avx": ("cpu.avx", needs(features=AVX2[:6]), ""),
    "cpu-avx2": ("cpu.avx2", needs(), ""),
    "t4": ("cu130.sm75.avx512.vnni", needs("75", (*AVX512, "avx512_vnni")), CUDA),
    "a10g": ("cu130.sm86.avx2", needs("86"), CUDA),
    "a10g-cu12": ("cu129.sm86.avx2", replace(needs("86"), driver="525.60.13"), CUDA),
    "h100": ("cu130.sm90.avx2", needs("90"), CUDA),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Recipes in one bucket, and what the CUDA ones depend on."""
    folder = tmp_path_factory.mktemp("variants")
    runtime = pack(folder / "nvidia_cuda_runtime-13.0-py3-none-any.whl", RUNTIME)
    published = {runtime: entry_of(runtime, "runtime")}
    for recipe, (label, need, requires) in RECIPES.items():
        wheel = tiny_wheel(folder, f"0.3.36+{label}", requires)
        published.update(with_variant(wheel, recipe, need))
    with serving(objects(published)) as running:
        yield running


def installed(
    server: Server,
    folder: Path,
    *command: str,
    index: str = "simple/",
    gpu: str = "",
    driver: str = "13.0",
) -> tuple[str, str, str]:
    """Label of the content, version of dist-info, and what of CUDA came with it.

    `gpu` is the compute capability that uv is told to have found, `driver` the CUDA version that
    its driver is for.
    """
    env = clean(os.environ)
    if gpu:
        env["NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION"] = driver
        env["NV_VARIANT_PROVIDER_FORCE_SM_ARCH"] = gpu
    target = folder / "site"
    argv = (*command, "--quiet", "--no-cache-dir", "--target", str(target))
    capture((sys.executable, "-m", *argv, "--index-url", server.url + index, PROJECT), env=env)
    info = next(target.glob("llama_cpp_python-*.dist-info"))
    content = (target / "llama_cpp" / "__init__.py").read_text()
    runtime = next((each.name for each in target.glob("nvidia_*.dist-info")), "")
    assert (target / "bin" / "llama-server").is_file()
    label = content.partition("+")[2].strip('"\n')
    return label, info.stem.split("-")[1], runtime


@pytest.mark.parametrize("index", ["simple/", "simple-json/"])
@pytest.mark.parametrize(
    ("gpu", "label"),
    [
        ("8.6", "cu130.sm86.avx2"),
        ("9.0", "cu130.sm90.avx2"),
        ("8.9", "cu130.sm86.avx2"),  # machine code runs on the later ones of its major version
    ],
)
def test_uv_takes_the_copy_that_fits_the_gpu(
    server: Server, tmp_path: Path, index: str, gpu: str, label: str
) -> None:
    found = installed(server, tmp_path, *UV, *AWARE, index=index, gpu=gpu)
    assert found == (label, "0.3.36+variants", "nvidia_cuda_runtime-13.0.dist-info")


def test_uv_takes_the_copy_that_fits_the_driver(server: Server, tmp_path: Path) -> None:
    found = installed(server, tmp_path, *UV, *AWARE, gpu="8.6", driver="12.4")
    assert found[0] == "cu129.sm86.avx2"


@pytest.mark.parametrize("gpu", ["", "7.5", "6.1"])
def test_uv_takes_the_copy_that_fits_the_cpu(server: Server, tmp_path: Path, gpu: str) -> None:
    """7.5: of the t4 wheel no level says that it needs VNNI, so uv must not take it."""
    fits = "cpu.any" if missing(V3) else "cpu.avx2"
    assert installed(server, tmp_path, *UV, *AWARE, gpu=gpu) == (fits, "0.3.36+variants", "")


def test_uv_takes_the_plain_wheel_where_no_copy_fits(server: Server, tmp_path: Path) -> None:
    """In the channel of one recipe. Its dependency is not in there."""
    options = (*UV, *AWARE, "--no-deps")
    found = installed(server, tmp_path, *options, index="h100/simple/", gpu="8.6")
    assert found == ("cu130.sm90.avx2", "0.3.36+cu130.sm90.avx2", "")


@pytest.mark.parametrize("index", ["simple/", "simple-json/"])
@pytest.mark.parametrize("tool", [UV, PIP], ids=["uv", "pip"])
def test_who_knows_no_variants_takes_a_plain_wheel(
    server: Server, tmp_path: Path, tool: tuple[str, ...], index: str
) -> None:
    found = installed(server, tmp_path, *tool, index=index, gpu="8.6")
    assert found[:2] == ("cu130.sm90.avx2", "0.3.36+cu130.sm90.avx2")


@pytest.mark.parametrize("tool", [(*UV, *AWARE), PIP], ids=["uv", "pip"])
def test_e3_a_label_that_is_asked_for_is_what_comes(
    server: Server, tmp_path: Path, tool: tuple[str, ...]
) -> None:
    found = installed(server, tmp_path, *tool, f"{PROJECT}==0.3.36+cpu.avx2", gpu="8.6")
    assert found == ("cpu.avx2", "0.3.36+cpu.avx2", "")
