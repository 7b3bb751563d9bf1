"""The archive for machines without Python, made from the finished wheel: the same bytes."""

import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

from hostwheel.artifact.magic import is_elf
from hostwheel.plan.plan import Plan

LIBRARY_FOLDER = "lib/llama_cpp/lib"

README = """\
llama.cpp for {host}
{underline}

Build {version}: llama.cpp {commit}, as vendored in llama-cpp-python {upstream}.
Start it with bin/llama-server -m MODEL.gguf; every program takes --help.

It needs a CPU with {features},
glibc {glibc} and libstdc++ with GLIBCXX_{glibcxx}, or newer. On any other CPU it says so and
exits with status 3.
{cuda}"""

CUDA_README = """
The GPU is used where there is a driver {driver} or newer and a GPU of compute capability
{compute}. CUDA's libraries are not in this archive. Put those of the wheels nvidia-cuda-runtime
and nvidia-cublas (CUDA {major}) into lib/nvidia/cu{major}/lib, for example with

    pip install --target lib {requires}

Without a driver everything runs on the CPU, but the libraries must be there.
"""


def write_archive(plan: Plan, wheel_root: Path, archive: Path) -> None:
    """`wheel_root` is the unpacked wheel. The same plan and wheel give the same bytes."""
    top = plan.archive.removesuffix(".tar.gz")
    files = {
        **{f"{LIBRARY_FOLDER}/{path.name}": path.read_bytes() for path in elf_files(wheel_root)},
        **{f"licenses/{path.name}": path.read_bytes() for path in licences(wheel_root)},
        **{f"sbom/{path.name}": path.read_bytes() for path in sboms(wheel_root)},
        "README.txt": readme(plan).encode(),
    }
    with (
        archive.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, content in sorted(files.items()):
            add_file(tar, plan, f"{top}/{name}", content)
        for tool in plan.tools:
            add_link(tar, plan, f"{top}/bin/{tool}", f"../{LIBRARY_FOLDER}/{tool}")


def elf_files(wheel_root: Path) -> list[Path]:
    return sorted(path for path in (wheel_root / "llama_cpp" / "lib").iterdir() if is_elf(path))


def licences(wheel_root: Path) -> list[Path]:
    return sorted(wheel_root.glob("*.dist-info/licenses/*"))


def sboms(wheel_root: Path) -> list[Path]:
    return sorted(wheel_root.glob("*.dist-info/sboms/*"))


def add_file(tar: tarfile.TarFile, plan: Plan, name: str, content: bytes) -> None:
    info = member(plan, name)
    info.size = len(content)
    info.mode = 0o755 if content.startswith(b"\x7fELF") else 0o644
    tar.addfile(info, io.BytesIO(content))


def add_link(tar: tarfile.TarFile, plan: Plan, name: str, target: str) -> None:
    info = member(plan, name)
    info.type, info.linkname, info.mode = tarfile.SYMTYPE, target, 0o777
    tar.addfile(info)


def member(plan: Plan, name: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.mtime = plan.source.epoch
    return info


def readme(plan: Plan) -> str:
    title = f"llama.cpp for {plan.host.title}"
    values: Mapping[str, str] = {
        "host": plan.host.title,
        "underline": "=" * len(title),
        "version": plan.version,
        "commit": plan.source.llama_cpp_commit,
        "upstream": plan.source.version,
        "features": " ".join(plan.features) or "nothing beyond x86-64",
        "glibc": plan.host.glibc,
        "glibcxx": plan.host.glibcxx,
        "cuda": cuda_readme(plan),
    }
    return README.format_map(values)


def cuda_readme(plan: Plan) -> str:
    if plan.cuda is None or plan.host.gpu is None:
        return ""
    return CUDA_README.format(
        driver=plan.cuda.driver,
        compute=plan.host.gpu.compute,
        major=plan.cuda.release.partition(".")[0],
        requires=" ".join(f"'{requirement}'" for requirement in plan.requires),
    )
