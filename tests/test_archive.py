"""The archive for machines without Python: what a wheel holds, for tar alone."""

import dataclasses
import os
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import pytest

from hostwheel.artifact.magic import is_elf
from hostwheel.build.archive import write_archive
from hostwheel.build.product import Product, unpack_wheel
from hostwheel.plan.defines import TOOLS
from hostwheel.plan.plan import Plan
from smoke.installed import unpack
from tests.plans import BILL, LIB, plan_for, wheel_files, write_wheel

PLAN = plan_for("cpu-avx2")
CUDA = plan_for("a10g")
TOP = PLAN.archive.removesuffix(".tar.gz")


@pytest.fixture(scope="session")
def product(tmp_path_factory: pytest.TempPathFactory) -> Product:
    folder = tmp_path_factory.mktemp("wheel")
    wheel = write_wheel(folder / PLAN.wheel, wheel_files(PLAN, folder / "compiled"))
    return unpack_wheel(wheel, folder / "unpacked", folder / "symbols")


@pytest.fixture(scope="session")
def archive(product: Product, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(PLAN, product, tmp_path_factory.mktemp("archive"))


def written(plan: Plan, product: Product, folder: Path) -> Path:
    write_archive(plan, product.root, folder / plan.archive)
    return folder / plan.archive


def members(archive: Path) -> Mapping[str, tarfile.TarInfo]:
    with tarfile.open(archive) as tar:
        return {info.name: info for info in tar}


def unpacked(archive: Path, folder: Path) -> Path:
    unpack(archive, folder)
    return folder / archive.name.removesuffix(".tar.gz")


def test_the_same_wheel_gives_the_same_bytes(
    product: Product, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: 4_000_000_000.0)
    for path in product.root.rglob("*.so"):
        path.touch()
        path.chmod(0o600)
    assert written(PLAN, product, tmp_path).read_bytes() == archive.read_bytes()


def test_no_path_of_the_build_and_no_time_but_the_sources_is_in_it(archive: Path) -> None:
    infos = members(archive).values()
    assert {(info.mtime, info.uid, info.gid, info.uname, info.gname) for info in infos} == {
        (PLAN.source.epoch, 0, 0, "", "")
    }
    assert archive.read_bytes()[3:8] == bytes(5)  # gzip: no name, no time


def test_everything_lies_below_one_folder_of_the_archives_name(archive: Path) -> None:
    for name in members(archive):
        path = PurePosixPath(name)
        assert path.parts[0] == TOP
        assert ".." not in path.parts


def test_programs_and_libraries_are_executable_and_nothing_is_setuid(archive: Path) -> None:
    for name, info in members(archive).items():
        if info.issym():
            assert info.mode == 0o777
        else:
            assert info.isreg()
            assert info.mode == (0o755 if f"/{LIB}/" in name else 0o644), name


@pytest.mark.parametrize("tool", TOOLS)
def test_the_links_in_bin_are_relative_and_lead_to_the_program(
    archive: Path, tmp_path: Path, tool: str
) -> None:
    folder = unpacked(archive, tmp_path)
    link = folder / "bin" / tool
    assert not link.readlink().is_absolute()
    assert link.resolve() == folder / "lib" / LIB / tool
    assert is_elf(link.resolve())


def test_every_elf_file_of_the_wheel_is_there_byte_for_byte(
    product: Product, archive: Path, tmp_path: Path
) -> None:
    there = unpacked(archive, tmp_path) / "lib" / LIB
    originals = {path.name: path.read_bytes() for path in product.elf_files()}
    assert len(originals) == len(PLAN.libraries) + len(TOOLS)
    assert {path.name: path.read_bytes() for path in there.iterdir()} == originals


def test_nothing_else_is_in_it_but_licences_sbom_and_the_readme(archive: Path) -> None:
    prefixes = (f"{TOP}/lib/{LIB}/", f"{TOP}/bin/")
    assert sorted(name for name in members(archive) if not name.startswith(prefixes)) == [
        f"{TOP}/README.txt",
        f"{TOP}/licenses/LICENSE-linenoise",
        f"{TOP}/licenses/LICENSE-llama.cpp",
        f"{TOP}/sbom/hostwheel.cdx.json",
    ]


def test_the_sbom_is_the_wheels(archive: Path, tmp_path: Path) -> None:
    assert (unpacked(archive, tmp_path) / "sbom" / "hostwheel.cdx.json").read_bytes() == BILL


def test_no_library_of_nvidia_is_in_it(product: Product, tmp_path: Path) -> None:
    runtime = tmp_path / "wheel" / "nvidia" / "cu13" / "lib" / "libcudart.so.13"
    shutil.copytree(product.root, tmp_path / "wheel")
    runtime.parent.mkdir(parents=True)
    shutil.copyfile(product.elf_files()[0], runtime)
    write_archive(CUDA, tmp_path / "wheel", tmp_path / CUDA.archive)
    assert [name for name in members(tmp_path / CUDA.archive) if "cudart" in name] == []


def test_cuda_is_looked_for_where_the_readme_says(product: Product, tmp_path: Path) -> None:
    runpath = CUDA.defines["HOSTWHEEL_RUNPATH"].split(";")[1]
    place = os.path.normpath(runpath.replace("$ORIGIN", f"lib/{LIB}"))
    assert place == "lib/nvidia/cu13/lib"
    assert f"into {place}," in readme(CUDA, product, tmp_path)


def readme(plan: Plan, product: Product, folder: Path) -> str:
    return (unpacked(written(plan, product, folder), folder) / "README.txt").read_text()


def test_the_readme_of_a_cuda_build_names_driver_gpu_and_requirements(
    product: Product, tmp_path: Path
) -> None:
    text = readme(CUDA, product, tmp_path)
    assert "driver 580.65.06 or newer and a GPU of compute capability\n86." in text
    assert "'nvidia-cuda-runtime>=13,<14' 'nvidia-cublas>=13,<14'" in text


def test_the_readme_of_a_cpu_build_says_nothing_of_gpus(product: Product, tmp_path: Path) -> None:
    text = readme(PLAN, product, tmp_path)
    assert not any(word in text for word in ("CUDA", "GPU", "driver", "nvidia"))
    assert f"Build {PLAN.version}: llama.cpp 0c1e57098bba" in text


def test_a_cpu_build_for_a_host_with_a_gpu_promises_nothing(
    product: Product, tmp_path: Path
) -> None:
    text = readme(dataclasses.replace(CUDA, cuda=None), product, tmp_path)
    assert not any(word in text for word in ("CUDA", "The GPU is used", "driver"))


def test_the_readme_names_what_the_machine_needs(product: Product, tmp_path: Path) -> None:
    host = dataclasses.replace(PLAN.host, title="Some host", glibc="2.28", glibcxx="3.4.25")
    text = readme(dataclasses.replace(PLAN, host=host), product, tmp_path)
    assert text.startswith("llama.cpp for Some host\n=======================\n")
    assert f"a CPU with {' '.join(PLAN.features)},\n" in text
    assert "glibc 2.28 and libstdc++ with GLIBCXX_3.4.25, or newer" in text
