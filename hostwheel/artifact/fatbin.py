"""Which GPU code a file carries: NVIDIA's fat binaries, read from their headers alone.

The format is not documented. What is here was found with nvcc 13.0.88 and checked against
cuobjdump 13.5: a container (`CONTAINER`) holds entries (`ENTRY`), each a header and a payload.
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lief import ELF
from zstandard import ZstdDecompressor, ZstdError

from hostwheel.artifact.binary import open_elf
from hostwheel.artifact.facts import Image, ImageKind
from hostwheel.errors import BadInput

# Linked code, and relocatable device code (nvcc -rdc=true) that is kept beside it.
SECTIONS = (".nv_fatbin", "__nv_relfatbin")

MAGIC = 0xBA55ED50
CONTAINER_VERSION = 1
CONTAINER = struct.Struct("<IHHQ")  # magic, version, header size, size of all entries
# kind, version, header size, payload size, packed size, -, minor, major, sm, -, -, flags, -, size
ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
ALIGNMENT = 8

# nvcc 13.0 was only seen to set the second; the first is older toolkits'.
LZ4, ZSTD = 0x2000, 0x8000
ARCH_SPECIFIC, FAMILY_SPECIFIC = 0x100000, 0x200000

# Bytes of one image, unpacked: what is beyond is not looked at.
LARGEST = 64 << 20

RELEASE = re.compile(rb"Cuda compilation tools, release (\d+\.\d+)")

KINDS: dict[int, ImageKind] = {1: "ptx", 2: "cubin"}


def read_fatbin(path: Path) -> tuple[Image, ...]:
    """All GPU code of an ELF file in order, none for a file without; BadInput when damaged."""
    return elf_images(open_elf(path), path)


def elf_images(elf: ELF.Binary, path: Path) -> tuple[Image, ...]:
    """As `read_fatbin`, of a file that was opened. Without section headers it has to have none."""
    if not len(elf.sections) and any(
        struct.pack("<I", MAGIC) in bytes(segment.content) for segment in elf.segments
    ):
        raise BadInput(f"{path}: has no section headers, by which its GPU code would be found")
    return tuple(
        image
        for section in elf.sections
        if section.name in SECTIONS
        for image in section_images(path, str(section.name), memoryview(section.content))
    )


def section_images(path: Path, section: str, data: memoryview) -> Iterator[Image]:
    """All GPU code in one section's bytes, in order; BadInput when damaged."""
    return Reader(path=path, section=section, data=data).images()


@dataclass(frozen=True, kw_only=True, slots=True)
class Reader:
    """One section, and where it comes from for messages."""

    path: Path
    section: str
    data: memoryview

    def images(self) -> Iterator[Image]:
        at = 0
        while (at := self.past_padding(at)) < len(self.data):
            end, start = self.container(at)
            while start < end:
                image, start = self.entry(start, end)
                yield image
            at = end

    def past_padding(self, at: int) -> int:
        """Containers are aligned, with zeros between."""
        zeros = bytes(ALIGNMENT)
        while (
            at < len(self.data) and self.data[at : at + ALIGNMENT] == zeros[: len(self.data) - at]
        ):
            at += ALIGNMENT
        return at

    def container(self, at: int) -> tuple[int, int]:
        """End of the container at `at`, and its first entry."""
        magic, version, header, size = self.unpack(CONTAINER, at, len(self.data))
        self.expect(magic == MAGIC, at, f"magic {magic:#x}, expected {MAGIC:#x}")
        self.expect(version == CONTAINER_VERSION, at, f"fat binary version {version}, expected 1")
        self.expect(header >= CONTAINER.size, at, f"header of {header} bytes")
        end = at + header + size
        self.expect(end <= len(self.data), at, f"{size} bytes of images, past the section's end")
        return end, at + header

    def entry(self, at: int, end: int) -> tuple[Image, int]:
        """The image at `at`, and where the next begins."""
        number, _, header, size, _, _, minor, major, sm, _, _, flags, _, _ = self.unpack(
            ENTRY, at, end
        )
        after = at + header + size
        self.expect(number in KINDS, at, f"image kind {number}, expected 1 (PTX) or 2 (cubin)")
        self.expect(header >= ENTRY.size, at, f"image header of {header} bytes")
        self.expect(after <= end, at, f"an image of {size} bytes, past its container's end")
        self.expect(0 < sm < 1000, at, f"architecture {sm}")
        packed = bool(flags & (LZ4 | ZSTD))
        image = Image(
            kind=KINDS[number],
            sm=f"{sm}{suffix(flags)}",
            compressed=packed,
            size=size,
            version=f"{major}.{minor}",
            section=self.section,
            toolkit=toolkit(unpacked(self.data[at + header : after], flags)),
        )
        return image, after

    def unpack(self, form: struct.Struct, at: int, end: int) -> tuple[int, ...]:
        self.expect(at + form.size <= end, at, f"{end - at} bytes, too few for a header")
        return form.unpack_from(self.data, at)

    def expect(self, condition: bool, at: int, found: str) -> None:
        if not condition:
            where = f"{self.path}: {self.section} at byte {at}"
            raise BadInput(f"{where}: damaged or unknown fat binary: {found}")


def unpacked(stored: memoryview, flags: int) -> bytes | memoryview:
    """The code itself, of very large ones the beginning; nothing where it cannot be had."""
    if not flags & (LZ4 | ZSTD):
        return stored
    if not flags & ZSTD:
        return b""
    try:
        return ZstdDecompressor().stream_reader(stored).read(LARGEST)
    except ZstdError:
        return b""


def toolkit(code: bytes | memoryview) -> str | None:
    """What ptxas writes into a note of each cubin, and NVVM into a comment of PTX."""
    match = RELEASE.search(code)
    return match[1].decode() if match else None


def suffix(flags: int) -> str:
    """The a of sm_120a, the f of sm_120f."""
    if flags & ARCH_SPECIFIC:
        return "a"
    return "f" if flags & FAMILY_SPECIFIC else ""
