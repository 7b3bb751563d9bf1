"""What is known of a finished artifact: values only, filled by the modules beside this one."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["wheel", "archive", "folder", "file"]
ImageKind = Literal["cubin", "ptx"]
Format = Literal["ELF", "PE", "Mach-O"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """A file in an artifact. `name` is its path there, with slashes; `path` where it lies unpacked.

    `size` is in bytes, `packed` what it takes up in a zip file (None elsewhere).
    """

    name: str
    path: Path
    size: int
    packed: int | None
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class WheelFacts:
    """A wheel's three accounts of itself: file name, METADATA and WHEEL in its dist-info.

    `name`, `version` and `tags` are the file name's, parsed; `version_text` as written there.
    `infos` are all dist-info folders; `record` has a sentence for each way in which RECORD and
    the members differ; `problems` has one for each account that cannot be read.
    """

    name: str
    version: str
    version_text: str
    tags: tuple[str, ...]
    infos: tuple[str, ...]
    metadata_name: str | None
    metadata_version: str | None
    requires: tuple[str, ...]
    wheel_tags: tuple[str, ...]
    record: tuple[str, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Contents:
    """An unpacked artifact. `links` is name → target of symbolic links inside it.

    `nested` are members that are archives and may hold native code, whatever their names.

    `sha256` and `size` are the artifact's own bytes; None and the members' sum for a folder.
    """

    path: Path
    kind: Kind
    size: int
    sha256: str | None
    members: tuple[Member, ...]
    nested: tuple[str, ...]
    links: Mapping[str, str]
    wheel: WheelFacts | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Spot:
    """Where one function uses a feature: how often, and the first place.

    `function` is the (mangled) name, None where neither symbols, a symbol map nor unwind tables
    know it (then one Spot may stand for many functions); a function known from unwind tables alone
    is named by its address ("0x1a40").
    `evidence` says what proves that this function runs only where the CPU was asked
    ("ifunc: …", "target_clones: …"), None without proof. `at_load`: loading the file runs it,
    whatever the CPU.
    """

    function: str | None
    address: int
    count: int
    text: str
    evidence: str | None
    at_load: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    """All uses of one CPU feature in a file. `spots` are by address, one for each function."""

    count: int
    spots: tuple[Spot, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Code:
    """The x86-64 machine code of one file. `used` is feature (archspec's name) → where.

    `invalid` counts bytes that decode to nothing. `asks`: a cpuid, an xgetbv or an ifunc is
    somewhere in it; without one, and without imports that could tell, nothing is dispatched.
    """

    instructions: int
    invalid: int
    used: Mapping[str, Use]
    asks: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Native:
    """What the headers of one ELF, PE or Mach-O image say.

    `machine` is "x86-64", "aarch64", …. `needed` are libraries' names as written; `versions` is
    the highest asked for by prefix (GLIBC, GLIBCXX). `rpath` is DT_RPATH's, which ELF's loader
    ignores where there is a DT_RUNPATH (`runpath`). `imports` are undefined functions.
    `level` is the x86 level that a GNU property note demands ("x86-64-v3"). `paths` are absolute
    folders of a build machine found in it, RUNPATH's among them.
    """

    format: Format
    machine: str
    needed: tuple[str, ...]
    soname: str | None
    runpath: tuple[str, ...]
    rpath: tuple[str, ...]
    versions: Mapping[str, str]
    imports: tuple[str, ...]
    exports: tuple[str, ...]
    build_id: str | None
    level: str | None
    paths: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """One piece of GPU code. `sm` is such as 86, 120a, 120f; `size` is bytes as stored.

    `version` is the PTX ISA's (9.0 comes with CUDA 13.0), or the cubin format's.
    `section` tells linked from relocatable code. `toolkit` is the release of CUDA that compiled it
    ("13.0"), as the code itself says; None where it does not, or is compressed in the old way.
    """

    kind: ImageKind
    sm: str
    compressed: bool
    size: int
    version: str
    section: str
    toolkit: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """One native file. `code` is None where the machine is not x86-64: it was not read.

    A universal Mach-O file gives one File for each of its architectures.
    """

    member: Member
    native: Native
    code: Code | None
    images: tuple[Image, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Artifact:
    """Everything that the checks look at."""

    contents: Contents
    files: tuple[File, ...]
