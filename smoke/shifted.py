"""A kernel made wrong on purpose: it runs as before, and computes something else."""

from collections.abc import Collection, Iterator
from pathlib import Path

import lief
from iced_x86 import Decoder, Mnemonic, OpKind

NIBBLE = 4  # bits; a quantized byte holds two numbers


def shift_by_five(libraries: Path, function: str) -> None:
    """In each library below with `function`, shift its upper nibbles by 5 bits instead of 4.

    Where a CPU has no code of its own, `function` only calls ggml's portable `function`_generic,
    which is therefore changed, too. Raises ValueError where nothing shifts so.
    """
    names = (function, f"{function}_generic")
    found = [at for path in sorted(libraries.glob("*.so")) for at in shifts(path, names)]
    if not found:
        raise ValueError(f"{libraries}: no {function} in it that shifts words by {NIBBLE} bits")
    for path, offset in found:
        content = bytearray(path.read_bytes())
        content[offset] += 1
        path.write_bytes(content)


def shifts(library: Path, functions: Collection[str]) -> Iterator[tuple[Path, int]]:
    """Where in the file the constant of each such shift of exported `functions` stands."""
    binary = lief.ELF.parse(library)
    assert binary, library
    for symbol in binary.exported_symbols:
        if symbol.name in functions:
            code = bytes(binary.get_content_from_virtual_address(symbol.value, symbol.size))
            start = binary.virtual_address_to_offset(symbol.value)
            assert isinstance(start, int)
            yield from ((library, start + at) for at in constants(code))


def constants(code: bytes) -> Iterator[int]:
    """The last byte, which is the constant, of each instruction that shifts words by NIBBLE."""
    for instruction in Decoder(64, code):
        if instruction.mnemonic in (Mnemonic.PSRLW, Mnemonic.VPSRLW):
            last = instruction.op_kind(instruction.op_count - 1)
            if last == OpKind.IMMEDIATE8 and instruction.immediate8 == NIBBLE:
                yield instruction.next_ip - 1
