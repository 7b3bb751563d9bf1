"""A PE file (DLL, extension module or program of Windows) for the audit."""

from collections.abc import Iterator
from pathlib import Path

from lief import COFF, PE

from hostwheel.artifact.binary import enum_name, text
from hostwheel.artifact.dispatch import asks, gated
from hostwheel.artifact.extent import sized
from hostwheel.artifact.facts import Image, Native
from hostwheel.artifact.fatbin import SECTIONS, section_images
from hostwheel.artifact.layout import Layout, Region, named
from hostwheel.artifact.paths import build_paths
from hostwheel.artifact.symbols import Function, one_per_address
from hostwheel.errors import BadInput

MACHINES = {"AMD64": "x86-64", "I386": "x86", "ARM64": "aarch64"}
# Bytes of a symbol, and of the length before the symbols' names, which counts itself.
SYMBOL, LENGTH = 18, 4
FUNCTION = COFF.Symbol.COMPLEX_TYPE.FUNCTION
EXECUTABLE = PE.Section.CHARACTERISTICS.MEM_EXECUTE


def read_pe(path: Path) -> Layout:
    """Everything but the instructions; BadInput when it is truncated or damaged."""
    pe = open_pe(path)
    native = headers(pe, path)
    code = tuple(regions(pe)) if native.machine == "x86-64" else None
    known = named(one_per_address(functions(pe)), unwound(pe))
    return Layout(
        native=native,
        images=tuple(images(pe, path)),
        regions=code,
        functions=tuple(sized(known, path, code or ())),
        asks=asks(native.imports),
        gated=gated(known, native.exports, {each.address for each in pe.ctor_functions}),
    )


def open_pe(path: Path) -> PE.Binary:
    config = PE.ParserConfig()
    config.parse_exceptions = True
    config.parse_signature = config.parse_rsrc = config.parse_reloc = False
    pe = PE.parse(path, config)
    if pe is None:
        raise BadInput(f"{path}: a Windows program that cannot be read; is the download complete?")
    size = path.stat().st_size
    if (end := max(ends(pe, path), default=0)) > size:
        raise BadInput(
            f"{path}: truncated or damaged PE file: its contents end at byte {end} of {size}"
        )
    if len(pe.sections) < pe.header.numberof_sections or not len(pe.sections):
        raise BadInput(f"{path}: truncated or damaged PE file: its section table is not whole")
    return pe


def ends(pe: PE.Binary, path: Path) -> Iterator[int]:
    """Where each section ends in the file, its symbol table, and its signature."""
    for section in pe.sections:
        if section.pointerto_raw_data:
            yield section.pointerto_raw_data + section.sizeof_raw_data
    if start := pe.header.pointerto_symbol_table:
        names = start + SYMBOL * pe.header.numberof_symbols
        with path.open("rb") as file:
            file.seek(names)
            yield names + max(LENGTH, int.from_bytes(file.read(LENGTH), "little"))
    certificates = pe.data_directory(PE.DataDirectory.TYPES.CERTIFICATE_TABLE)
    if certificates is not None:
        yield certificates.rva + certificates.size  # an offset in the file, in this one alone


def headers(pe: PE.Binary, path: Path) -> Native:
    machine = enum_name(pe.header.machine)
    export = pe.get_export()
    return Native(
        format="PE",
        machine=MACHINES.get(machine, machine.lower()),
        needed=tuple(dict.fromkeys(text(each.name) for each in (*pe.imports, *pe.delay_imports))),
        soname=(text(export.name) or None) if export else None,
        runpath=(),
        rpath=(),
        versions={},
        imports=tuple(sorted(set(imports(pe)))),
        exports=tuple(sorted({text(each.name) for each in export.entries if each.name}))
        if export
        else (),
        build_id=None,
        level=None,
        paths=build_paths(path, regions(pe)),
    )


def imports(pe: PE.Binary) -> Iterator[str]:
    for library in (*pe.imports, *pe.delay_imports):
        for entry in library.entries:
            if not entry.is_ordinal:
                yield text(entry.name)


def functions(pe: PE.Binary) -> Iterator[Function]:
    """Exported ones, and those of a symbol table as MinGW leaves it; neither knows sizes."""
    base = pe.imagebase
    if export := pe.get_export():
        for entry in export.entries:
            if entry.name and not entry.is_forwarded:
                yield base + entry.address, 0, text(entry.name)
    sections = tuple(pe.sections)
    for symbol in pe.symbols:
        if symbol.complex_type == FUNCTION and 0 < symbol.section_idx <= len(sections):
            start = base + sections[symbol.section_idx - 1].virtual_address
            yield start + symbol.value, 0, text(symbol.name)


def unwound(pe: PE.Binary) -> Iterator[tuple[int, int]]:
    """(address, size) of each function in .pdata: all that use the stack."""
    for entry in pe.exceptions:
        if isinstance(entry, PE.RuntimeFunctionX64) and entry.rva_start < entry.rva_end:
            yield pe.imagebase + entry.rva_start, entry.rva_end - entry.rva_start


def regions(pe: PE.Binary) -> Iterator[Region]:
    for section in sorted(pe.sections, key=lambda each: each.virtual_address):
        size = min(section.virtual_size or section.sizeof_raw_data, section.sizeof_raw_data)
        if section.has_characteristic(EXECUTABLE) and size:
            yield Region(
                address=pe.imagebase + section.virtual_address,
                offset=section.pointerto_raw_data,
                size=size,
            )


def images(pe: PE.Binary, path: Path) -> Iterator[Image]:
    """A section's name has eight bytes here."""
    for section in pe.sections:
        for name in SECTIONS:
            if section.name == name[:8]:
                yield from section_images(path, name, memoryview(section.content))


def is_pe(path: Path) -> bool:
    """Whether it begins like a PE file: a program for DOS, with a longer header behind it."""
    with path.open("rb") as file:
        start = file.read(64)
        if start[:2] != b"MZ":
            return False
        file.seek(int.from_bytes(start[60:64], "little"))
        return file.read(4) == b"PE\0\0" or path.suffix.lower() in (".dll", ".pyd", ".exe")
