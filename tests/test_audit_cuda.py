"""CUDA001 and CUDA002: GPU code for the card, one CUDA, a driver that is new enough."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from hostwheel.artifact.facts import Artifact, Image
from hostwheel.audit.cuda import driver_floor, runs_on
from hostwheel.audit.target import Target
from hostwheel.facts.cuda import MAJOR_DRIVERS, RELEASES, TOOLKITS
from hostwheel.facts.host import Gpu
from hostwheel.facts.policy import NVIDIA
from tests.audits import (
    CUDA_PLAN,
    G5,
    V4,
    artifact,
    audited,
    found_in,
    image,
    messages,
    native_file,
    plain_wheel,
)
from tests.plans import need_nvcc

WHEEL_13 = "pkg-1.0+cu130-py3-none-any.whl"
LIBRARY_12, LIBRARY_13 = ("libcudart.so.12",), ("libcudart.so.13",)


def with_driver(driver: str, compute: str = "86") -> Target:
    host = G5.host
    assert host is not None
    return Target(host=replace(host, gpu=Gpu(name="card", compute=compute, driver=driver)))


def cuda_wheel(*images: Image, needed: tuple[str, ...] = LIBRARY_13) -> Artifact:
    return artifact(native_file("pkg/libggml-cuda.so", images=images, needed=needed))


def told(made: Artifact, target: Target, check: str) -> list[str]:
    return messages(found_in(made, target, check), check)


# the card


@pytest.mark.parametrize(
    ("code", "compute", "runs"),
    [
        (image("86"), "86", True),
        (image("80"), "86", True),
        (image("89"), "86", False),
        (image("75"), "86", False),
        (image("90a"), "90", True),
        (image("90a"), "100", False),
        (image("120a"), "121", False),
        (image("120f"), "121", True),
        (image("120f"), "100", False),
        (image("75", "ptx"), "86", True),
        (image("90", "ptx"), "86", False),
        (image("90a", "ptx"), "100", False),
        (image("100f", "ptx"), "120", False),
    ],
)
def test_which_code_runs_on_which_card(code: Image, compute: str, runs: bool) -> None:
    assert runs_on(code, compute) == runs


@pytest.mark.parametrize("others", [("75", "89", "90a"), ("120a",), ("70",)])
def test_a_card_without_code_is_refused(others: tuple[str, ...]) -> None:
    """B1, B3: no kernel image is available."""
    bad = cuda_wheel(*map(image, others))
    (found,) = found_in(bad, G5, "CUDA001")
    assert found.standing == "refused"
    assert found.message.startswith("no GPU code for sm_86; it has sm_")
    assert told(cuda_wheel(*map(image, others), image("86")), G5, "CUDA001") == []
    assert told(bad, V4, "CUDA001") == []  # no card, no question


@pytest.mark.parametrize(
    "images",
    [
        (image("86"), image("86", "ptx")),
        (image("89"),),
        (image("86"), image("89")),
        (image("86", "ptx"),),
        (),
    ],
)
def test_a_plan_is_for_one_card_and_without_ptx(images: tuple[Image, ...]) -> None:
    """B6, B12"""
    (found,) = found_in(cuda_wheel(*images), CUDA_PLAN, "CUDA001")
    assert found.standing == "refused"
    assert "planned is machine code for sm_86 alone" in found.message
    assert told(cuda_wheel(image("86")), CUDA_PLAN, "CUDA001") == []


# the driver


@pytest.mark.parametrize(
    ("images", "needed", "driver"),
    [
        ((image("86"),), LIBRARY_12, "525.60.13"),
        ((image("86", compressed=True),), LIBRARY_12, "550.54.14"),
        ((image("86"),), LIBRARY_13, "580.65.06"),
        ((image("86", compressed=True),), LIBRARY_13, "580.65.06"),
        ((image("86", toolkit="12.8"),), (), "525.60.13"),
        ((image("80", "ptx", version="8.7"),), LIBRARY_12, "570.26"),
        ((image("80", "ptx", version="9.2"),), LIBRARY_13, "595.45.04"),
        ((image("80", "ptx", version="9.2"), image("86")), LIBRARY_13, "580.65.06"),
        ((image("80", "ptx", version="9.9", toolkit="13.1"),), LIBRARY_13, "590.44.01"),
    ],
)
def test_the_driver_floor(images: tuple[Image, ...], needed: tuple[str, ...], driver: str) -> None:
    floor = driver_floor(cuda_wheel(*images, needed=needed), "86")
    assert floor is not None
    assert floor.driver == driver


def test_a_wheel_without_gpu_code_asks_for_no_driver() -> None:
    assert driver_floor(artifact(native_file()), "86") is None


def test_compressed_code_needs_a_newer_driver() -> None:
    """B5: 535 finds the GPU and cannot unpack its code."""
    packed = cuda_wheel(image("86", compressed=True), needed=LIBRARY_12)
    plain = cuda_wheel(image("86"), needed=LIBRARY_12)
    (message,) = told(packed, with_driver("535.183.01"), "CUDA002")
    assert message.startswith("needs driver 550.54.14, aws-g5 has 535.183.01: compressed")
    assert told(plain, with_driver("535.183.01"), "CUDA002") == []
    assert told(packed, with_driver("550.54.14"), "CUDA002") == []


def test_ptx_alone_pins_the_driver_to_the_toolkit() -> None:
    """B6, B12: compiled by an unsupported toolchain."""
    ptx = cuda_wheel(image("86", "ptx", version="8.8"), needed=LIBRARY_12)
    both = cuda_wheel(image("86", "ptx", version="8.8"), image("86"), needed=LIBRARY_12)
    assert "PTX 8.8 of CUDA 12.9" in told(ptx, with_driver("570.172.08"), "CUDA002")[0]
    assert told(both, with_driver("570.172.08"), "CUDA002") == []
    assert told(ptx, with_driver("575.51.03"), "CUDA002") == []


def test_floors_are_by_minor_version_and_compared_as_numbers() -> None:
    """B11: 580.159 is newer than 580.65, and not enough for what CUDA 13.2 has to compile."""
    ptx = cuda_wheel(image("86", "ptx", version="9.2"))
    assert told(ptx, with_driver("580.159.04"), "CUDA002")
    assert told(ptx, with_driver("595.45.04"), "CUDA002") == []
    assert told(cuda_wheel(image("86")), with_driver("580.159.04"), "CUDA002") == []
    assert told(cuda_wheel(image("86")), with_driver("580.9.1"), "CUDA002")


def test_the_tables_agree() -> None:
    for release, toolkit in TOOLKITS.items():
        assert release in RELEASES
        assert toolkit.driver == MAJOR_DRIVERS[toolkit.soname]
    for major, driver in MAJOR_DRIVERS.items():
        if f"{major}.0" in RELEASES and major > 11:
            assert RELEASES[f"{major}.0"].driver == driver


# one CUDA


@pytest.mark.parametrize(
    ("needed", "name", "requires"),
    [
        (LIBRARY_12, WHEEL_13, ()),
        (LIBRARY_13, "pkg-1.0+cu128-py3-none-any.whl", ()),
        (LIBRARY_13, "pkg-1.0-py3-none-any.whl", ("nvidia-cublas-cu12",)),
        ((*LIBRARY_12, "libcublas.so.13"), "pkg-1.0-py3-none-any.whl", ()),
    ],
)
def test_two_cudas_are_refused(
    needed: tuple[str, ...], name: str, requires: tuple[str, ...]
) -> None:
    """C7, C8: the label, the requirements and the libraries have to say the same."""
    file = native_file("pkg/libggml-cuda.so", images=(image("86"),), needed=needed)
    (message,) = told(artifact(file, name=name, requires=requires), G5, "CUDA002")
    assert message.startswith("two versions of CUDA: ")


@pytest.mark.parametrize(
    ("needed", "name", "requires"),
    [
        (LIBRARY_13, WHEEL_13, ("nvidia-cublas>=13,<14",)),
        (LIBRARY_12, "pkg-1.0+cu128.sm86-py3-none-any.whl", ("nvidia-cublas-cu12",)),
        ((*LIBRARY_13, "libcufft.so.12"), WHEEL_13, ()),  # cuFFT counts for itself
    ],
)
def test_one_cuda_passes(needed: tuple[str, ...], name: str, requires: tuple[str, ...]) -> None:
    file = native_file("pkg/libggml-cuda.so", images=(image("86"),), needed=needed)
    assert told(artifact(file, name=name, requires=requires), G5, "CUDA002") == []


@pytest.mark.parametrize("name", ["libcudart-9335f6a2.so.12.8.90", "libcublas.so.13"])
def test_bundled_cuda_libraries_are_told(name: str) -> None:
    """B7: grafted by a repair tool."""
    made = artifact(native_file(f"pkg.libs/{name}"))
    (found,) = [each for each in found_in(made, G5, "WHL002") if "bundles" in each.message]
    assert found.standing == "noted"
    assert any(library in found.message for library in NVIDIA)
    (found,) = found_in(artifact(native_file("pkg.libs/libcuda-01234567.so.1")), G5, "WHL002")
    assert found.standing == "refused"
    assert found_in(artifact(native_file("pkg/libggml-cuda.so")), G5, "WHL002") == []


# real code


@pytest.mark.parametrize(
    ("code", "verdict"),
    [("arch=compute_86,code=sm_86", "fits"), ("arch=compute_89,code=sm_89", "unfit")],
)
def test_what_nvcc_makes(tmp_path: Path, code: str, verdict: str) -> None:
    """B1"""
    source, path = tmp_path / "kernel.cu", tmp_path / "libk.so"
    source.write_text("__global__ void kernel(float *x) { x[threadIdx.x] += 1.0f; }\n")
    argv = (
        need_nvcc(),
        "-ccbin",
        "/usr/bin/g++",
        "-shared",
        "-Xcompiler",
        "-fPIC",
        "-gencode",
        code,
    )
    subprocess.run((*argv, str(source), "-o", str(path)), check=True)
    report = audited(plain_wheel(tmp_path, {"pkg/libk.so": path.read_bytes()}), G5)
    assert report.verdict == verdict
    assert report.floor is None or report.floor.driver == "580.65.06"
    assert (report.floor is None) == (verdict == "unfit")
