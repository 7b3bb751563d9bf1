"""Facts of one ELF file, read with LIEF. No verdicts."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import lief
from lief import ELF

from hostwheel.artifact.magic import is_elf
from hostwheel.errors import BadInput
from hostwheel.facts.versions import numeric

VERSION = re.compile(r"(?P<prefix>.+)_(?P<number>\d+(?:\.\d+)*)")

# A version node without a number that only glibc 2.36 and later define.
NAMED_VERSIONS = {"GLIBC_ABI_DT_RELR": "GLIBC_2.36"}

# It prints on damaged input, and says less than the errors here.
lief.logging.disable()


@dataclass(frozen=True, kw_only=True, slots=True)
class Binary:
    """What the headers and symbol tables of one ELF file say. `Native` has more, for which the
    whole file has to be read.

    `runpath` has DT_RUNPATH's and DT_RPATH's directories. `versions` has the highest
    version asked for, by prefix (GLIBC, GLIBCXX, …). `imports` are undefined functions.
    """

    needed: tuple[str, ...]
    soname: str | None
    runpath: tuple[str, ...]
    build_id: str | None
    versions: Mapping[str, str]
    imports: tuple[str, ...]


def read_binary(path: Path) -> Binary:
    """Read the facts of an ELF file; BadInput when it is none, truncated or damaged."""
    elf = open_elf(path)
    return Binary(
        needed=tuple(needed(elf)),
        soname=soname(elf),
        runpath=(*runpath(elf), *rpath(elf)),
        build_id=build_id(elf),
        versions=highest(asked_versions(elf)),
        imports=tuple(sorted(set(imports(elf)))),
    )


def open_elf(path: Path) -> ELF.Binary:
    """LIEF's view of an ELF file that lies there whole; BadInput otherwise."""
    if not path.exists():
        raise BadInput(f"{path}: no such file")
    if not is_elf(path):
        raise BadInput(f"{path}: not an ELF file")
    elf = ELF.parse(path)
    if elf is None:
        raise BadInput(f"{path}: an ELF file that cannot be read; is the download complete?")
    if fault := damage(elf, path.stat().st_size):
        raise BadInput(f"{path}: truncated or damaged ELF file: {fault}")
    return elf


def damage(elf: ELF.Binary, size: int) -> str | None:
    """What a whole file of `size` bytes would not show. LIEF itself takes half a file."""
    header = elf.header
    table_end = header.section_header_offset + header.numberof_sections * header.section_header_size
    if table_end > size:
        return f"its section table ends at byte {table_end} of {size}"
    if (end := max(ends(elf), default=0)) > size:
        return f"its contents end at byte {end} of {size}"
    if not len(elf.sections) and not len(elf.segments):
        return "it has neither sections nor segments"
    return None


def ends(elf: ELF.Binary) -> Iterator[int]:
    """Where each segment and section ends in the file."""
    for segment in elf.segments:
        yield segment.file_offset + segment.physical_size
    for section in elf.sections:
        if section.type != ELF.Section.TYPE.NOBITS:
            yield section.file_offset + section.size


def needed(elf: ELF.Binary) -> Iterator[str]:
    for entry in elf.dynamic_entries:
        if isinstance(entry, ELF.DynamicEntryLibrary):
            yield text(entry.name)


def soname(elf: ELF.Binary) -> str | None:
    for entry in elf.dynamic_entries:
        if isinstance(entry, ELF.DynamicSharedObject):
            return text(entry.name)
    return None


def runpath(elf: ELF.Binary) -> Iterator[str]:
    for entry in elf.dynamic_entries:
        if isinstance(entry, ELF.DynamicEntryRunPath):
            yield from entry.paths


def rpath(elf: ELF.Binary) -> Iterator[str]:
    for entry in elf.dynamic_entries:
        if isinstance(entry, ELF.DynamicEntryRpath):
            yield from entry.paths


def build_id(elf: ELF.Binary) -> str | None:
    note = elf.get(ELF.Note.TYPE.GNU_BUILD_ID)
    return None if note is None else bytes(note.description).hex()


def asked_versions(elf: ELF.Binary) -> Iterator[str]:
    """Version nodes such as GLIBC_2.34, as asked of other libraries."""
    for library in elf.symbols_version_requirement:
        for version in library.get_auxiliary_symbols():
            yield text(version.name)


def highest(names: Iterable[str]) -> dict[str, str]:
    """The highest number per prefix. Nodes without a number (GLIBC_PRIVATE) are left out."""
    found: dict[str, str] = {}
    for name in names:
        if match := VERSION.fullmatch(NAMED_VERSIONS.get(name, name)):
            prefix, number = match["prefix"], match["number"]
            found[prefix] = max(found.get(prefix, "0"), number, key=numeric)
    return found


def imports(elf: ELF.Binary) -> Iterator[str]:
    """Undefined functions, and undefined symbols of no type: no library was linked for those."""
    wanted = (ELF.Symbol.TYPE.FUNC, ELF.Symbol.TYPE.GNU_IFUNC, ELF.Symbol.TYPE.NOTYPE)
    for symbol in elf.dynamic_symbols:
        if symbol.shndx == 0 and symbol.name and symbol.type in wanted:
            yield text(symbol.name)


def has_ifunc(elf: ELF.Binary) -> bool:
    """Whether the loader chooses functions at start: IFUNC symbols or IRELATIVE relocations."""
    return any(
        symbol.type == ELF.Symbol.TYPE.GNU_IFUNC and symbol.shndx != 0 for symbol in elf.symbols
    ) or any(
        relocation.type == ELF.Relocation.TYPE.X86_64_IRELATIVE for relocation in elf.relocations
    )


def text(name: str | bytes) -> str:
    """LIEF gives bytes for a name that is not UTF-8."""
    return name if isinstance(name, str) else name.decode(errors="backslashreplace")


def enum_name(value: object) -> str:
    """LIEF's name of a value, or its number where it has none: the file is damaged or strange."""
    return str(getattr(value, "name", value))
