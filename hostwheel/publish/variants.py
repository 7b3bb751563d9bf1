"""The variant-labelled copy of a wheel, from which an installer that knows variants chooses.

All wheels of one upstream version differ in their local version (`0.3.36+cu130.sm86.avx2`), and an
installer decides on a version before it looks at variants: of `llama-cpp-python==0.3.36`, uv 0.13.9
takes the highest, on every machine. So the copies share one version, `0.3.36+variants`, and one
variants.json that names all of them. It sorts above every label that begins with "cpu" or "cu":
uv with `--preview-features wheel-variants` takes it, and of it the copy that fits. pip, and uv
without, see no file of it and take a plain wheel from the same index; so does `uv lock`.

A copy's label is the local version of its wheel. `uv pip list` shows the shared version; which copy
it is, dist-info's variant.json says, and `python -m llama_cpp.hostwheel`.
"""

import base64
import csv
import hashlib
import io
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile, ZipFile, ZipInfo

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion

from hostwheel.errors import BadInput, Refused
from hostwheel.publish.catalog import Needs
from hostwheel.publish.properties import properties_of
from hostwheel.publish.rezip import Rewritten
from hostwheel.publish.variants_json import described

SHARED = "variants"  # the local version of all copies
NULL = "null"  # what the drafts call a variant without properties, and nothing else
CHANGED = ("METADATA", "RECORD", "variant.json")  # in the copy's dist-info


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """`file` is the copy, `version` what it says of itself: not the wheel's own."""

    file: Path
    version: str
    label: str
    properties: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Names:
    """How wheel and copy begin: with `name-version`, in file names and inside."""

    wheel: str
    copy: str
    rest: str

    @property
    def version(self) -> str:
        return self.copy.partition("-")[2]

    def inside(self, name: str) -> str:
        """A member's name in the copy: dist-info and .data carry the version."""
        for folder in (".dist-info/", ".data/"):
            if name.startswith(self.wheel + folder):
                return self.copy + name.removeprefix(self.wheel)
        return name


def variant_of(wheel: Path, needs: Needs, folder: Path) -> Variant:
    """Write the copy into `folder`: the same bytes whenever, wherever it is done.

    BadInput for what is no wheel of a version with a label.
    """
    label, names = named(wheel)
    properties = properties_of(needs)
    label = label if properties else NULL
    file = folder / f"{names.copy}-{names.rest}-{label}.whl"
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as out:
            write_copy(wheel, names, described({label: properties}), Rewritten(out))
        part.replace(file)
    except (BadZipFile, KeyError, OSError) as error:
        raise BadInput(f"{wheel}: cannot be copied: {error}; build it again") from None
    finally:
        part.unlink(missing_ok=True)
    return Variant(file=file, version=names.version, label=label, properties=properties)


def named(wheel: Path) -> tuple[str, Names]:
    """The label, and what the wheel and its copy are called."""
    try:
        _, version, _, _ = parse_wheel_filename(wheel.name)
    except (InvalidWheelFilename, InvalidVersion) as error:
        raise BadInput(f"{wheel}: {error}") from None
    if version.local is None:
        raise BadInput(f"{wheel}: its version has no label (…+cu130.sm86.avx2): build it again")
    name, written, rest = wheel.name.removesuffix(".whl").split("-", 2)
    shared = f"{name}-{written.partition('+')[0]}+{SHARED}"
    return version.local, Names(wheel=f"{name}-{written}", copy=shared, rest=rest)


def write_copy(wheel: Path, names: Names, variant: bytes, out: Rewritten) -> None:
    info = f"{names.wheel}.dist-info"
    with wheel.open("rb") as source, ZipFile(source) as archive:
        old = archive.getinfo(f"{info}/RECORD")
        said = metadata(archive.read(f"{info}/METADATA"), names.version)
        new = {f"{info}/METADATA": said, f"{info}/variant.json": variant}
        for each in archive.infolist():
            if each.filename not in new and each is not old:
                out.take(source, each, names.inside(each.filename))
        record = recorded(archive.read(old), new, names)
        for name, content in (new | {old.filename: record}).items():
            out.add(old, names.inside(name), content)
    out.finish()


def metadata(content: bytes, version: str) -> bytes:
    """METADATA with another version."""
    line = b"Version: " + version.encode()
    return re.sub(rb"(?m)^Version:[^\r\n]*", line, content, count=1)


def recorded(content: bytes, new: Mapping[str, bytes], names: Names) -> bytes:
    """The wheel's RECORD with the rows of the copy's `new` members."""
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    last = f"{names.wheel}.dist-info/RECORD"
    for row in csv.reader(content.decode().splitlines()):
        if row and row[0] not in new and row[0] != last:
            out.writerow((names.inside(row[0]), *row[1:]))
    for name, added in new.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(added).digest()).rstrip(b"=").decode()
        out.writerow((names.inside(name), f"sha256={digest}", len(added)))
    out.writerow((names.inside(last), "", ""))
    return text.getvalue().encode()


def prove_copy(wheel: Path, copy: Path) -> None:
    """Refused unless every member is equal but those of dist-info that the copy is for."""
    _, names = named(wheel)
    try:
        with ZipFile(wheel) as one, ZipFile(copy) as other:
            found = next(differences(one, other, names), None)
    except (BadZipFile, OSError) as error:
        raise BadInput(f"{wheel} or {copy.name} cannot be read: {error}") from None
    if found:
        raise Refused(f"{copy.name} is no copy of {wheel.name}: {found}; publish it again")


def said_variant(copy: Path) -> bytes | None:
    """The variant.json in a copy, None where there is none. Refused for what is no copy."""
    try:
        with ZipFile(copy) as archive:
            named = (
                each for each in archive.namelist() if each.endswith(".dist-info/variant.json")
            )
            found = next(named, None)
            return archive.read(found) if found else None
    except (BadZipFile, OSError) as error:
        raise Refused(f"{copy.name} cannot be read: {error}") from None


def differences(wheel: ZipFile, copy: ZipFile, names: Names) -> Iterator[str]:
    own = {names.inside(each.filename): each for each in wheel.infolist()}
    copied = {each.filename: each for each in copy.infolist()}
    info = f"{names.copy}.dist-info"
    if len(own) != len(wheel.infolist()) or len(copied) != len(copy.infolist()):
        yield "it has two members of one name"
    for name in sorted(own.keys() ^ copied.keys() ^ {f"{info}/variant.json"}):
        yield f"{name} is in one of them only"
    for name in sorted(own.keys() - {f"{info}/{each}" for each in CHANGED}):
        if own[name].external_attr != copied[name].external_attr:
            yield f"{name} has another mode"
        if digest(wheel, own[name]) != digest(copy, copied[name]):
            yield f"{name} has other bytes"
    said, variant = copy.read(f"{info}/METADATA"), copy.read(f"{info}/variant.json")
    old = f"{names.wheel}.dist-info"
    if said != metadata(wheel.read(f"{old}/METADATA"), names.version):
        yield "METADATA says more than another version"
    new = {f"{old}/METADATA": said, f"{old}/variant.json": variant}
    if copy.read(f"{info}/RECORD") != recorded(wheel.read(f"{old}/RECORD"), new, names):
        yield "RECORD does not say what is in it"


def digest(archive: ZipFile, info: ZipInfo) -> str:
    seen = hashlib.sha256()
    with archive.open(info) as file:
        while block := file.read(1 << 20):
            seen.update(block)
    return seen.hexdigest()
