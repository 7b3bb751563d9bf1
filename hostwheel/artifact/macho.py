"""A Mach-O file of macOS for the audit: thin, or universal with several architectures."""

from collections.abc import Iterator
from pathlib import Path

from lief import MachO

from hostwheel.artifact.binary import enum_name, text
from hostwheel.artifact.dispatch import asks, gated
from hostwheel.artifact.facts import Native
from hostwheel.artifact.layout import Layout, Region, named
from hostwheel.artifact.magic import UNIVERSAL
from hostwheel.artifact.paths import build_paths
from hostwheel.artifact.symbols import Function, one_per_address
from hostwheel.errors import BadInput

MACHINES = {"X86_64": "x86-64", "X86": "x86", "ARM64": "aarch64"}
INSTRUCTIONS = (MachO.Section.FLAGS.PURE_INSTRUCTIONS, MachO.Section.FLAGS.SOME_INSTRUCTIONS)
NOT_IN_FILE = (
    MachO.Section.TYPE.ZEROFILL,
    MachO.Section.TYPE.GB_ZEROFILL,
    MachO.Section.TYPE.THREAD_LOCAL_ZEROFILL,
)


def read_macho(path: Path) -> tuple[Layout, ...]:
    """Everything but the instructions, by architecture; BadInput when truncated or damaged."""
    paths = build_paths(path)
    fat = open_macho(path)  # held until the end: its parts die with it
    return tuple(read_one(macho, paths) for macho in fat)


def open_macho(path: Path) -> MachO.FatBinary:
    fat = MachO.parse(path)
    with path.open("rb") as file:
        start = file.read(8)
    expected = int.from_bytes(start[4:], "big") if start[:4] in UNIVERSAL else 1
    if fat is None or len(fat) != expected:
        raise BadInput(f"{path}: a Mach-O file that cannot be read; is the download complete?")
    size = path.stat().st_size
    for macho in fat:
        end = max((macho.fat_offset + end for end in ends(macho)), default=size + 1)
        if end > size or len(macho.commands) < macho.header.nb_cmds:
            raise BadInput(
                f"{path}: truncated or damaged Mach-O file:"
                f" its contents end at byte {end} of {size}"
            )
    return fat


def ends(macho: MachO.Binary) -> Iterator[int]:
    for segment in macho.segments:
        yield segment.file_offset + segment.file_size
    for section in macho.sections:
        if section.type not in NOT_IN_FILE:
            yield section.offset + section.size
    if table := macho.symbol_command:
        yield table.strings_offset + table.strings_size


def read_one(macho: MachO.Binary, paths: tuple[str, ...]) -> Layout:
    native = headers(macho, paths)
    known = named(one_per_address(functions(macho)), ((start, 0) for start in starts(macho)))
    return Layout(
        native=native,
        images=(),  # NVIDIA ended its support of macOS before the formats that we read
        regions=tuple(regions(macho)) if native.machine == "x86-64" else None,
        functions=known,
        asks=asks(native.imports),
        exact=False,  # and Clang leaves jump tables behind a function
        gated=gated(known, native.exports, {each.address for each in macho.ctor_functions}),
    )


def headers(macho: MachO.Binary, paths: tuple[str, ...]) -> Native:
    machine = enum_name(macho.header.cpu_type)
    own = [each.name for each in macho.libraries if is_own(each)]
    return Native(
        format="Mach-O",
        machine=MACHINES.get(machine, machine.lower()),
        needed=tuple(text(each.name) for each in macho.libraries if not is_own(each)),
        soname=text(own[0]) if own else None,
        runpath=tuple(text(each.path) for each in macho.rpaths),
        rpath=(),
        versions={},
        imports=tuple(sorted({plain(each.name) for each in macho.imported_functions})),
        exports=tuple(sorted({plain(each.name) for each in macho.exported_functions})),
        build_id=bytes(macho.uuid.uuid).hex() if macho.uuid else None,
        level=None,
        paths=paths,
    )


def is_own(library: MachO.DylibCommand) -> bool:
    return library.command == MachO.LoadCommand.TYPE.ID_DYLIB


def plain(name: str | bytes) -> str:
    """Without the underscore that every C name has here."""
    return text(name).removeprefix("_")


def functions(macho: MachO.Binary) -> Iterator[Function]:
    """Symbols in sections of code; none has a size."""
    code = tuple(regions(macho))
    for symbol in macho.symbols:
        if any(region.address <= symbol.value < region.end for region in code):
            yield symbol.value, 0, plain(symbol.name)


def starts(macho: MachO.Binary) -> Iterator[int]:
    """Where functions begin: a list for debuggers that stripping leaves in."""
    if macho.function_starts is not None:
        for start in macho.function_starts.functions:
            yield macho.imagebase + start


def regions(macho: MachO.Binary) -> Iterator[Region]:
    for section in sorted(macho.sections, key=lambda each: each.virtual_address):
        if section.size and any(section.has(flag) for flag in INSTRUCTIONS):
            yield Region(
                address=section.virtual_address,
                offset=macho.fat_offset + section.offset,
                size=section.size,
            )
