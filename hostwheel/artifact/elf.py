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
    rpath,
    runpath,
    soname,
    text,
)
from hostwheel.artifact.dispatch import asks, choices, gated, pointers
from hostwheel.artifact.facts import Native
from hostwheel.artifact.fatbin import elf_images
from hostwheel.artifact.layout import Layout, Region, named
from hostwheel.artifact.paths import build_paths
from hostwheel.artifact.startup import run_at_load
from hostwheel.artifact.symbols import Function, functions, load_symbol_map, one_per_address

MACHINES = {"X86_64": "x86-64", "I386": "x86"}
LEVELS = {
    ELF.X86ISA.ISA.BASELINE: "x86-64",
    ELF.X86ISA.ISA.V2: "x86-64-v2",
    ELF.X86ISA.ISA.V3: "x86-64-v3",
    ELF.X86ISA.ISA.V4: "x86-64-v4",
}
ARRAYS = (
    (ELF.DynamicEntry.TAG.PREINIT_ARRAY, ELF.DynamicEntry.TAG.PREINIT_ARRAYSZ),
    (ELF.DynamicEntry.TAG.INIT_ARRAY, ELF.DynamicEntry.TAG.INIT_ARRAYSZ),
)


def read_elf(path: Path, symbols: Path | None) -> Layout:
    """Everything but the instructions; BadInput when it is truncated or damaged.

    `symbols` is the folder of saved symbol maps, for files that were stripped.
    """
    elf = open_elf(path)
    known = all_functions(elf, symbols)
    undefined = tuple(text(each.name) for each in elf.dynamic_symbols if each.shndx == 0)
    native = headers(elf, path)
    early = set(constructors(elf))
    code = tuple(regions(elf)) if native.machine == "x86-64" else None
    return Layout(
        native=native,
        images=elf_images(elf, path),
        regions=code,
        functions=known,
        asks=has_ifunc(elf) or asks(undefined),
        choices=choices(elf, known),
        gated=gated(known, native.exports, early),
        at_load=dict(run_at_load(early, path, code or ())),
    )


def headers(elf: ELF.Binary, path: Path) -> Native:
    machine = enum_name(elf.header.machine_type)
    return Native(
        format="ELF",
        machine=MACHINES.get(machine, machine.lower()),
        needed=tuple(needed(elf)),
        soname=soname(elf),
        runpath=tuple(runpath(elf)),
        rpath=tuple(rpath(elf)),
        versions=highest(asked_versions(elf)),
        imports=tuple(sorted(set(imports(elf)))),
        exports=tuple(sorted({name for _, _, name in functions(elf.dynamic_symbols)})),
        build_id=build_id(elf),
        level=level(elf),
        paths=build_paths(path, regions(elf)),
    )


def constructors(elf: ELF.Binary) -> Iterator[int]:
    """What the loader calls before anybody else can: LIEF's, and those that a symbol names."""
    for each in elf.ctor_functions:
        yield each.address
    values = {entry.tag: entry.value for entry in elf.dynamic_entries}
    slots = tuple(
        range(values[start], values[start] + values.get(size, 0))
        for start, size in ARRAYS
        if start in values
    )
    if slots:
        for slot, function in pointers(elf):
            if any(slot in each for each in slots):
                yield function


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
