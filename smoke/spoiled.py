"""Libraries spoiled on purpose, to see that a gate notices: one dies, the other miscalculates."""

import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

import lief
from iced_x86 import Decoder, Mnemonic, OpKind

AVX512 = bytes.fromhex("62f17d48fec0")  # vpaddd zmm0, zmm0, zmm0
NIBBLE = 4  # bits; a quantized byte holds two numbers


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
    starts = [start for start, _ in exported(library, (function,))]
    if not starts:
        raise ValueError(f"{library} has no function {function}")
    for start in starts:
        overwrite(library, start, AVX512)


def shift_by_five(libraries: Path, function: str) -> None:
    """In each library below with `function`, shift its upper nibbles by 5 bits instead of 4.

    Where a CPU has no code of its own, `function` only calls ggml's portable `function`_generic,
    which is therefore changed, too. Raises ValueError where nothing shifts so.
    """
    found = [
        (path, start + at)
        for path in sorted(libraries.glob("*.so"))
        for start, code in exported(path, (function, f"{function}_generic"))
        for at in constants(code)
    ]
    if not found:
        raise ValueError(f"{libraries}: no {function} in it that shifts words by {NIBBLE} bits")
    for path, offset in found:
        overwrite(path, offset, bytes([NIBBLE + 1]))


def exported(library: Path, functions: Collection[str]) -> Iterator[tuple[int, bytes]]:
    """Where in the file the code of each of the exported `functions` starts, and the code."""
    binary = lief.ELF.parse(library)
    assert binary, library
    for symbol in binary.exported_symbols:
        if symbol.name in functions:
            start = binary.virtual_address_to_offset(symbol.value)
            assert isinstance(start, int)
            yield start, bytes(binary.get_content_from_virtual_address(symbol.value, symbol.size))


def constants(code: bytes) -> Iterator[int]:
    """The last byte, which is the constant, of each instruction that shifts words by NIBBLE."""
    for instruction in Decoder(64, code):
        if instruction.mnemonic in (Mnemonic.PSRLW, Mnemonic.VPSRLW):
            last = instruction.op_kind(instruction.op_count - 1)
            if last == OpKind.IMMEDIATE8 and instruction.immediate8 == NIBBLE:
                yield instruction.next_ip - 1


def overwrite(library: Path, offset: int, content: bytes) -> None:
    with library.open("r+b") as file:
        file.seek(offset)
        file.write(content)
