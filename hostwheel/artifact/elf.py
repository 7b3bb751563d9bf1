"""An ELF file for the audit: headers, functions, where its code lies, what asks the CPU."""

from collections.abc import Iterator
from pathlib import Path

from lief import ELF

from hostwheel.artifact.binary import (
    asked_versions,
    build_id,
    enum_name,
    has_ifunc,
    highest,
    imports,
    needed,
    open_elf,
    runpath,
    soname,
    text,
)
from hostwheel.artifact.dispatch import asks, choices, gated
from hostwheel.artifact.facts import Native
from hostwheel.artifact.fatbin import elf_images
from hostwheel.artifact.layout import Layout, Region, named
from hostwheel.artifact.paths import build_paths
from hostwheel.artifact.symbols import Function, functions, load_symbol_map, one_per_address

MACHINES = {"X86_64": "x86-64", "I386": "x86"}
LEVELS = {
    ELF.X86ISA.ISA.BASELINE: "x86-64",
    ELF.X86ISA.ISA.V2: "x86-64-v2",
    ELF.X86ISA.ISA.V3: "x86-64-v3",
    ELF.X86ISA.ISA.V4: "x86-64-v4",
}


def read_elf(path: Path, symbols: Path | None) -> Layout:
    """Everything but the instructions; BadInput when it is truncated or damaged.

    `symbols` is the folder of saved symbol maps, for files that were stripped.
    """
    elf = open_elf(path)
    known = all_functions(elf, symbols)
    undefined = tuple(text(each.name) for each in elf.dynamic_symbols if each.shndx == 0)
    native = headers(elf, path)
    return Layout(
        native=native,
        images=elf_images(elf, path),
        regions=tuple(regions(elf)) if elf.header.machine_type == ELF.ARCH.X86_64 else None,
        functions=known,
        asks=has_ifunc(elf) or asks(undefined),
        choices=choices(elf, known),
        gated=gated(known, native.exports, {each.address for each in elf.ctor_functions}),
    )


def headers(elf: ELF.Binary, path: Path) -> Native:
    machine = enum_name(elf.header.machine_type)
    return Native(
        format="ELF",
        machine=MACHINES.get(machine, machine.lower()),
        needed=tuple(needed(elf)),
        soname=soname(elf),
        runpath=tuple(runpath(elf)),
        versions=highest(asked_versions(elf)),
        imports=tuple(sorted(set(imports(elf)))),
        exports=tuple(sorted({name for _, _, name in functions(elf.dynamic_symbols)})),
        build_id=build_id(elf),
        level=level(elf),
        paths=build_paths(path, regions(elf)),
    )


def level(elf: ELF.Binary) -> str | None:
    """The highest x86 level that a property note says is needed."""
    note = elf.get(ELF.Note.TYPE.GNU_PROPERTY_TYPE_0)
    if not isinstance(note, ELF.NoteGnuProperty):
        return None
    found = note.find(ELF.NoteGnuProperty.Property.TYPE.X86_ISA)
    if not isinstance(found, ELF.X86ISA):
        return None
    asked = [
        LEVELS[isa]
        for flag, isa in found.values
        if flag == ELF.X86ISA.FLAG.NEEDED and isa in LEVELS
    ]
    return max(asked, default=None)


def all_functions(elf: ELF.Binary, symbols: Path | None) -> tuple[Function, ...]:
    """From symbol tables, else the saved map, and from unwind tables what those leave out."""
    identity = build_id(elf)
    saved = load_symbol_map(symbols, identity) if symbols and identity else None
    known = one_per_address(
        (*functions(elf.symbols), *(saved.functions if saved else ()))  # .symtab and .dynsym
    )
    return named(known, ((each.address, each.size) for each in elf.functions))


def regions(elf: ELF.Binary) -> Iterator[Region]:
    """Executable sections by address; executable segments of a file without section headers."""
    for section in sorted(elf.sections, key=lambda each: each.virtual_address):
        code = section.has(ELF.Section.FLAGS.EXECINSTR)
        if code and section.size and section.type != ELF.Section.TYPE.NOBITS:
            yield Region(
                address=section.virtual_address, offset=section.file_offset, size=section.size
            )
    if not len(elf.sections):
        for segment in elf.segments:
            if segment.has(ELF.Segment.FLAGS.X) and segment.physical_size:
                yield Region(
                    address=segment.virtual_address,
                    offset=segment.file_offset,
                    size=segment.physical_size,
                )
