"""Native files for tests: compiled on the spot, or taken apart and damaged."""

import subprocess
from pathlib import Path

from hostwheel.artifact.facts import File, Member
from hostwheel.artifact.native import read_file
from tests.plans import need

MINGW = "x86_64-w64-mingw32-gcc"


def member(path: Path) -> Member:
    return Member(name=path.name, path=path, size=path.stat().st_size, packed=None, sha256="")


def the_file(path: Path, symbols: Path | None = None) -> File:
    (found,) = read_file(member(path), symbols)
    return found


def compiled(folder: Path, source: str, *flags: str, name: str = "libx.so") -> Path:
    """A shared library of C or, with a name for Windows, a DLL."""
    compiler = (
        need(MINGW, "apt-get install gcc-mingw-w64-x86-64")
        if name.endswith((".dll", ".exe"))
        else "gcc"
    )
    code, result = folder / f"{name}.c", folder / name
    code.write_text(source)
    shared = ("-fPIC", "-shared") if name.endswith(".so") else ("-shared",)
    command = (compiler, "-O1", *shared, "-nostdlib", str(code), "-o", str(result), *flags)
    subprocess.run(command, check=True)
    return result


def assembled(folder: Path, *flags: str, name: str = "libx.so", **functions: str) -> Path:
    """One function per keyword, with that assembly in it (AT&T syntax)."""
    source = "".join(
        f'void {function}(void) {{ __asm__ volatile("{text}"); }}\n'
        for function, text in functions.items()
    )
    return compiled(folder, source, "-Wno-attributes", *flags, name=name)


def without_sections(path: Path) -> None:
    """Take an ELF file's section headers away, as some packers do."""
    content = bytearray(path.read_bytes())
    content[40:48] = bytes(8)  # e_shoff
    content[58:64] = bytes(6)  # e_shentsize, e_shnum, e_shstrndx
    path.write_bytes(content)
