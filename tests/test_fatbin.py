import os
import re
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from hostwheel.artifact.facts import Image
from hostwheel.artifact.fatbin import MAGIC, SECTIONS, read_fatbin
from hostwheel.errors import BadInput

CUOBJDUMP = "nvidia-cuda-cuobjdump==13.5.37"
LISTED = re.compile(r"^(ELF|PTX) file .*\.sm_(\w+)\.(?:cubin|ptx)$", re.MULTILINE)

KERNEL = """
__global__ void NAME(float *x, float k) { x[threadIdx.x] = x[threadIdx.x] * k + 1.0f; }
extern "C" void run_NAME(float *x) { NAME<<<1, 32>>>(x, 2.0f); }
"""

CONTAINER = struct.Struct("<IHHQ")
ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")


def entry(kind: int = 2, header: int = 64, sm: int = 86, flags: int = 0x11) -> bytes:
    """An entry with a payload of 8 bytes, as section 'read_fatbin' describes it."""
    return ENTRY.pack(kind, 0x101, header, 8, 0, 0, 8, 1, sm, 0, 0, flags, 0, 0) + bytes(8)


def container(
    *entries: bytes, magic: int = MAGIC, version: int = 1, header: int = 16, more: int = 0
) -> bytes:
    body = b"".join(entries)
    return CONTAINER.pack(magic, version, header, len(body) + more) + body


def with_section(folder: Path, content: bytes, section: str = ".nv_fatbin") -> Path:
    code, blob, result = folder / "x.c", folder / "blob", folder / "libx.so"
    blob.write_bytes(content)
    section = f'{section},\\"a\\"'
    code.write_text(f'__asm__(".section {section}\\n.incbin \\"{blob}\\"");\n')
    subprocess.run(["gcc", "-shared", "-nostdlib", code, "-o", result], check=True)
    return result


@pytest.fixture(scope="session")
def nvcc() -> Path:
    for found in sorted(Path("/var/tmp/hostwheel").glob("cuda-*/bin/nvcc")):
        return found
    if os.environ.get("CI") == "true":
        pytest.fail("no nvcc at /var/tmp/hostwheel/cuda-*/bin on the CI machine")
    pytest.skip("needs nvcc at /var/tmp/hostwheel/cuda-*/bin")


@pytest.fixture(scope="session")
def cuobjdump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """NVIDIA's own reader: HOSTWHEEL_CUOBJDUMP, or from the registry."""
    if given := os.environ.get("HOSTWHEEL_CUOBJDUMP"):
        return Path(given)
    folder = tmp_path_factory.mktemp("cuobjdump")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target")
    subprocess.run((*pip, str(folder), CUOBJDUMP), check=True)
    return next(folder.glob("nvidia/*/bin/cuobjdump"))


def cuda_library(nvcc: Path, folder: Path, *flags: str, sources: int = 1) -> Path:
    result = folder / "libcuda_x.so"
    codes = [folder / f"kernel{number}.cu" for number in range(sources)]
    for code in codes:
        code.write_text(KERNEL.replace("NAME", code.stem))
    host = ("-ccbin", "/usr/bin/g++", "-shared", "-Xcompiler", "-fPIC")
    command: list[str | Path] = [nvcc, *host, *flags, *codes, "-o", result]
    subprocess.run(command, check=True)
    return result


def code_for(*pairs: str) -> tuple[str, ...]:
    """nvcc options for pairs of virtual and real architecture, such as "86:sm_86"."""
    split = (pair.split(":") for pair in pairs)
    return tuple(f"-gencode=arch=compute_{arch},code={code}" for arch, code in split)


def kinds(images: tuple[Image, ...]) -> set[tuple[str, str]]:
    return {(image.kind, image.sm) for image in images}


CASES = {
    "one": (code_for("86:sm_86"), {("cubin", "86")}),
    "two": (code_for("86:sm_86", "89:sm_89"), {("cubin", "86"), ("cubin", "89")}),
    "ptx": (code_for("86:compute_86"), {("ptx", "86")}),
    "both": (code_for("86:[sm_86,compute_86]"), {("cubin", "86"), ("ptx", "86")}),
    "a": (code_for("120a:sm_120a"), {("cubin", "120a")}),
    "plain": (code_for("120:sm_120"), {("cubin", "120")}),
    "family": (code_for("120f:sm_120f"), {("cubin", "120f")}),
    "a-ptx": (code_for("120a:compute_120a"), {("ptx", "120a")}),
    "a-packed": ((*code_for("120a:sm_120a"), "-compress-mode=size"), {("cubin", "120a")}),
}


@pytest.mark.parametrize("case", CASES)
def test_architectures(nvcc: Path, tmp_path: Path, case: str) -> None:
    flags, expected = CASES[case]
    assert kinds(read_fatbin(cuda_library(nvcc, tmp_path, *flags))) == expected


@pytest.mark.network
@pytest.mark.parametrize("case", CASES)
def test_cuobjdump_agrees(nvcc: Path, cuobjdump: Path, tmp_path: Path, case: str) -> None:
    library = cuda_library(nvcc, tmp_path, *CASES[case][0], sources=2)
    listing = subprocess.run(
        (cuobjdump, "--list-elf", "--list-ptx", library), check=True, capture_output=True, text=True
    ).stdout
    theirs = Counter(LISTED.findall(listing))
    # cuobjdump 13.5 lists a cubin for sm_120f as sm_120.
    names = {"cubin": "ELF", "ptx": "PTX"}
    ours = Counter(
        (names[image.kind], image.sm.removesuffix("f")) for image in read_fatbin(library)
    )
    assert ours == theirs
    assert sum(theirs.values()) >= 2


@pytest.mark.parametrize(("mode", "compressed"), [("none", False), ("size", True)])
def test_compression(nvcc: Path, tmp_path: Path, mode: str, compressed: bool) -> None:
    flags = (*code_for("86:sm_86"), f"-compress-mode={mode}")
    images = read_fatbin(cuda_library(nvcc, tmp_path, *flags))
    assert {image.compressed for image in images} == {compressed}
    assert (max(image.size for image in images) < 1500) == compressed


def test_several_sources_each_have_their_code(nvcc: Path, tmp_path: Path) -> None:
    one = read_fatbin(cuda_library(nvcc, tmp_path, *code_for("86:sm_86")))
    three = read_fatbin(cuda_library(nvcc, tmp_path, *code_for("86:sm_86"), sources=3))
    assert len(three) == len(one) + 2


def test_relocatable_code_is_told_apart(nvcc: Path, tmp_path: Path) -> None:
    images = read_fatbin(cuda_library(nvcc, tmp_path, "-rdc=true", *code_for("86:sm_86")))
    assert {image.section for image in images} == set(SECTIONS)


def test_ptx_says_its_version(nvcc: Path, tmp_path: Path) -> None:
    (image,) = read_fatbin(cuda_library(nvcc, tmp_path, *code_for("86:compute_86")))
    assert image.version == "9.0"  # CUDA 13.0's


@pytest.mark.parametrize("mode", ["none", "size"])
def test_code_says_its_toolkit_compressed_or_not(nvcc: Path, tmp_path: Path, mode: str) -> None:
    flags = (*code_for("86:[sm_86,compute_86]"), f"-compress-mode={mode}")
    images = read_fatbin(cuda_library(nvcc, tmp_path, *flags))
    release = nvcc.parents[1].name.removeprefix("cuda-").rpartition(".")[0]
    assert {image.kind for image in images} == {"cubin", "ptx"}
    assert {image.toolkit for image in images if image.kind == "cubin"} == {release}


@pytest.mark.parametrize("flags", [0x2011, 0x8011])
def test_code_that_cannot_be_unpacked_says_no_toolkit(tmp_path: Path, flags: int) -> None:
    (image,) = read_fatbin(with_section(tmp_path, container(entry(flags=flags))))
    assert (image.compressed, image.toolkit) == (True, None)


def test_no_gpu_code(tmp_path: Path) -> None:
    assert read_fatbin(with_section(tmp_path, container(entry()), section=".rodata.x")) == ()


def test_containers_padding_and_flags(tmp_path: Path) -> None:
    content = container() + container(entry(), entry(1, sm=120, flags=0x108011)) + bytes(24)
    content += container(entry(flags=0x2011), entry(sm=100, flags=0x200011)) + bytes(4)
    images = read_fatbin(with_section(tmp_path, content))
    assert [(image.kind, image.sm, image.compressed) for image in images] == [
        ("cubin", "86", False),
        ("ptx", "120a", True),
        ("cubin", "86", True),
        ("cubin", "100f", False),
    ]
    assert {image.size for image in images} == {8}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (container(entry(), magic=0xDEADBEEF), "magic 0xdeadbeef, expected 0xba55ed50"),
        (container(entry(), version=9), "version 9"),
        (container(entry(), header=8), ": header of 8 bytes"),
        (container(entry(), more=8), "past the section's end"),
        (container(entry(kind=8)), "image kind 8"),
        (container(entry(header=16)), "image header of 16 bytes"),
        (container(entry(header=640)), "past its container's end"),
        (container(entry(sm=0)), "architecture 0"),
        (container(entry()[:40]), "40 bytes, too few for a header"),
        (container(entry())[:12], "12 bytes, too few for a header"),
        (container(entry()) + b"garbage!" * 4, "magic 0x62726167"),
    ],
)
def test_damage_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    library = with_section(tmp_path, content)
    with pytest.raises(BadInput, match=rf"libx\.so: \.nv_fatbin at byte \d+: .*{reason}"):
        read_fatbin(library)


def test_library_without_section_headers_is_refused(tmp_path: Path) -> None:
    library = with_section(tmp_path, container(entry()))
    content = bytearray(library.read_bytes())
    content[40:48] = bytes(8)  # e_shoff
    content[58:64] = bytes(6)  # e_shentsize, e_shnum, e_shstrndx
    library.write_bytes(content)
    with pytest.raises(BadInput, match="no section headers"):
        read_fatbin(library)


def test_truncated_library_is_refused(tmp_path: Path) -> None:
    library = with_section(tmp_path, container(entry()))
    library.write_bytes(library.read_bytes()[:-64])
    with pytest.raises(BadInput, match="truncated"):
        read_fatbin(library)
