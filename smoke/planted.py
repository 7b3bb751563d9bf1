"""A library spoiled on purpose, to see that a gate notices."""

import shutil
from pathlib import Path

import lief

AVX512 = bytes.fromhex("62f17d48fec0")  # vpaddd zmm0, zmm0, zmm0


def planted_copy(package: Path, folder: Path, library: str, function: str) -> Path:
    """A copy of the folder of llama_cpp in `folder`, with AVX-512 at the start of `function`."""
    copied = Path(shutil.copytree(package, folder / package.name))
    lend_cuda(package, folder)
    plant(copied / "lib" / library, function)
    return copied


def lend_cuda(package: Path, folder: Path) -> None:
    """A CUDA build in `folder` finds its libraries beside it, as in site-packages."""
    (folder / "nvidia").symlink_to(package.with_name("nvidia"))


def plant(library: Path, function: str) -> None:
    """Put an AVX-512 instruction where the exported `function` of `library` starts."""
    binary = lief.ELF.parse(library)
    symbol = binary and binary.get_dynamic_symbol(function)
    if not isinstance(binary, lief.ELF.Binary) or not symbol or not symbol.value:
        raise ValueError(f"{library} has no function {function}")
    offset = binary.virtual_address_to_offset(symbol.value)
    assert isinstance(offset, int)
    with library.open("r+b") as file:
        file.seek(offset)
        file.write(AVX512)
