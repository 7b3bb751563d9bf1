"""A bundle, packed or not: every file against its SHA256SUMS, our wheel against its statement."""

import hashlib
import json
import shutil
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from posixpath import normpath
from stat import S_ISLNK
from tempfile import TemporaryDirectory
from typing import IO, Any, Protocol

from hostwheel.artifact.contents import open_artifact, walk
from hostwheel.artifact.safely import damaged
from hostwheel.errors import BadInput, Refused
from hostwheel.trust.ssh import BUNDLE_NAMESPACE, Seal, Signers
from hostwheel.trust.statement import NAME
from hostwheel.trust.sums import SIGNATURE, SUMS, read_sums
from hostwheel.user.carried.sums import SAID
from hostwheel.user.verify_artifact import Given, artifact_findings, record_findings
from hostwheel.user.verify_finding import About, Finding, Outcome
from hostwheel.user.verify_programs import program_findings
from hostwheel.user.verify_signed import signature_findings
from hostwheel.user.verify_zip import check_form

EVIDENCE = "evidence/"  # of our wheel, statement.json among it
UNSIGNED: tuple[Outcome, str] = (
    "not checked",
    f"the bundle has no {EVIDENCE}{NAME}, so who built the wheel is unknown",
)
OTHERS = "who made this package: its bytes are those that were bundled"
LIST = (
    "nobody signed this bundle (`hostwheel bundle --key` does): its requirements, models and other "
    "packages are those of its own list, and whoever can change a file can change the list"
)
NOBODY = (
    f"{SIGNATURE} is not there, so nobody vouches for the bundle (`hostwheel bundle --key` does)"
)


class Files(Protocol):
    """The files of a bundle by name."""

    def names(self) -> tuple[str, ...]: ...
    def open(self, name: str) -> IO[bytes]: ...


@dataclass(frozen=True, slots=True)
class Folder:
    path: Path

    def names(self) -> tuple[str, ...]:
        files = (each for each in walk(self.path) if each.is_symlink() or not each.is_dir())
        return tuple(each.relative_to(self.path).as_posix() for each in files)

    def open(self, name: str) -> IO[bytes]:
        return (self.path / name).open("rb")


@dataclass(frozen=True, slots=True)
class Zip:
    path: Path
    archive: zipfile.ZipFile

    def names(self) -> tuple[str, ...]:
        """Refused where programs that unpack could make something else of the file."""
        members = self.archive.infolist()
        if link := next((each for each in members if S_ISLNK(each.external_attr >> 16)), None):
            raise Refused(f"{link.filename} is a link, and bundles have none")
        check_form(self.path, self.archive)
        return tuple(each.filename for each in members)

    def open(self, name: str) -> IO[bytes]:
        return self.archive.open(name)


def is_bundle(path: Path) -> bool:
    if path.is_dir():
        return (path / SAID).is_file()
    if not zipfile.is_zipfile(path) or path.suffix == ".whl":
        return False
    with zipfile.ZipFile(path) as archive:
        return SAID in archive.namelist()


def bundle_findings(path: Path, signers: Signers | None) -> Iterator[Finding]:
    with damaged(path):
        if path.is_dir():
            yield from files_findings(Folder(path), signers)
            return
        with zipfile.ZipFile(path) as archive:
            yield from files_findings(Zip(path, archive), signers)


def files_findings(files: Files, signers: Signers | None) -> Iterator[Finding]:
    sums = About(name=SUMS)
    try:
        names = files.names()
        listed = listed_files(files, names)
    except Refused as error:
        yield sums.refused("sums", str(error))
        return
    found = tuple(sum_findings(files, names, listed))
    yield from found
    signed = tuple(list_findings(files, names, signers))
    yield from signed
    said = read_said(files)
    vouched = any(each.check == "signer" and each.outcome == "checked" for each in signed)
    if not vouched:
        yield from program_findings(listed, str(said.get("tool")))
    if vouched and f"{EVIDENCE}{NAME}" not in names:
        signers = None  # theirs is the whole bundle, and it says nothing of who built the wheel
    ours = f"wheels/{said['wheel']}"
    for name in sorted(each for each in listed if each in names and each.endswith(".whl")):
        if any(each.about == name and each.outcome == "refused" for each in found):
            continue  # it has other bytes, and that was said
        yield from wheel_findings(files, name, name == ours, signers)


def listed_files(files: Files, names: tuple[str, ...]) -> Mapping[str, str]:
    if SUMS not in names:
        raise Refused("is not in the bundle, so nothing says what was bundled")
    if doubles := [name for name, count in Counter(names).items() if count > 1]:
        raise Refused(f"{doubles[0]} is in the bundle twice")
    if odd := next((each for each in names if normpath(f"/{each}") != f"/{each}"), None):
        raise Refused(f"{odd!r} is in the bundle, a name that leads elsewhere")
    with files.open(SUMS) as file:
        return read_sums(file.read())


def list_findings(
    files: Files, names: tuple[str, ...], signers: Signers | None
) -> Iterator[Finding]:
    """Who vouches for SHA256SUMS. Where signers are named, an unsigned bundle is refused."""
    about = About(name=SUMS)
    if SIGNATURE in names:
        with files.open(SUMS) as text, files.open(SIGNATURE) as signature:
            seal = Seal(data=text.read(), signature=signature.read(), namespace=BUNDLE_NAMESPACE)
        yield from signature_findings(about, seal, signers)
    elif signers:
        yield about.refused("signature", NOBODY)
    else:
        yield about.not_checked("signature", LIST)


def sum_findings(
    files: Files, names: tuple[str, ...], listed: Mapping[str, str]
) -> Iterator[Finding]:
    for name in sorted({*names, *listed} - {SUMS, SIGNATURE}):
        about = About(name=name)
        if name not in listed:
            yield about.refused("sums", f"is in the bundle and not in {SUMS}")
        elif name not in names:
            yield about.refused("sums", f"is in {SUMS} and not in the bundle")
        elif (actual := digest(files, name)) != listed[name]:
            yield about.refused("sums", f"sha256 {actual}, {SUMS} says {listed[name]}")
        else:
            yield about.checked("sums", f"has the sha256 of {SUMS}")


def digest(files: Files, name: str) -> str:
    seen = hashlib.sha256()
    with files.open(name) as file:
        while block := file.read(1 << 20):
            seen.update(block)
    return seen.hexdigest()


def read_said(files: Files) -> Mapping[str, Any]:
    """bundle.json. BadInput where it does not name the wheel that hostwheel built."""
    try:
        with files.open(SAID) as file:
            said: Mapping[str, Any] = json.load(file)
        return {**said, "wheel": str(said["wheel"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{SAID} names no wheel ({error}): make the bundle anew") from None


def wheel_findings(
    files: Files, name: str, is_ours: bool, signers: Signers | None
) -> Iterator[Finding]:
    """`is_ours`: hostwheel built it, and its evidence may be in the bundle."""
    names = files.names()

    def evidence(each: str) -> bytes | None:
        if f"{EVIDENCE}{each}" not in names:
            return None
        with files.open(f"{EVIDENCE}{each}") as source:
            return source.read()

    with TemporaryDirectory(prefix="hostwheel-verify-") as folder:
        path = Path(folder) / name.rpartition("/")[2]
        with files.open(name) as source, path.open("xb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        if is_ours:
            given = Given(name=path.name, file=path, read=evidence, unsigned=UNSIGNED)
            yield from artifact_findings(given, signers)
        else:
            yield from others_findings(About(name=name), path, Path(folder) / "unpacked")


def others_findings(about: About, wheel: Path, unpacked: Path) -> Iterator[Finding]:
    """Of a wheel that somebody else built: NVIDIA's are to be as NVIDIA made them."""
    unpacked.mkdir()
    try:
        yield from record_findings(about, open_artifact(wheel, unpacked))
    except BadInput as error:  # archives inside, which other people's wheels may have
        yield about.not_checked("record", str(error).removeprefix(f"{wheel}: "))
    yield about.not_checked("signature", OTHERS)
