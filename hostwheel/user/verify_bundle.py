"""A bundle, packed or not: every file against its SHA256SUMS, our wheel against its statement."""

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from posixpath import normpath
from tempfile import TemporaryDirectory

from hostwheel.artifact.contents import open_artifact
from hostwheel.artifact.safely import DAMAGE, damaged
from hostwheel.errors import BadInput, Refused
from hostwheel.trust.ssh import BUNDLE_NAMESPACE, Seal, Signers
from hostwheel.trust.statement import NAME
from hostwheel.trust.sums import SIGNATURE, SUMS, read_sums
from hostwheel.user.carried.sums import SAID
from hostwheel.user.verify_artifact import Given, artifact_findings, record_findings
from hostwheel.user.verify_files import Files, Folder, Zip, opened, read_whole
from hostwheel.user.verify_finding import About, Finding, Outcome
from hostwheel.user.verify_programs import program_findings
from hostwheel.user.verify_signed import signature_findings

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
UNTOLD = "no hostwheel wrote it so; get the bundle anew"
NOBODY = (
    f"{SIGNATURE} is not there, so nobody vouches for the bundle (`hostwheel bundle --key` does)"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """Of bundle.json: the wheel that hostwheel built, and which hostwheel bundled it."""

    wheel: str = ""
    tool: str = ""
    problem: str = ""


def bundle_findings(path: Path, signers: Signers | None) -> Iterator[Finding]:
    """BadInput for a zip file that cannot be opened."""
    with damaged(path):
        if path.is_dir():
            yield from files_findings(Folder(path), signers)
            return
        with opened(path) as archive:
            yield from files_findings(Zip(path, archive), signers)


def files_findings(files: Files, signers: Signers | None) -> Iterator[Finding]:
    """What was found before something could not be read is told with that."""
    try:
        yield from all_findings(files, signers)
    except Refused as error:
        yield About(name=SUMS).refused("sums", str(error))


def all_findings(files: Files, signers: Signers | None) -> Iterator[Finding]:
    try:
        names = files.names()
    except Refused as error:
        yield About(name=files.path.name).refused("sums", str(error))
        return
    listed = listed_files(files, names)
    found = tuple(sum_findings(files, names, listed))
    yield from found
    signed = tuple(list_findings(files, names, signers))
    yield from signed
    said = read_said(files, names)
    if said.problem:
        yield About(name=SAID).refused("programs", said.problem)
    vouched = any(each.check == "signer" and each.outcome == "checked" for each in signed)
    if not vouched and not said.problem:
        yield from program_findings(listed, said.tool)
    if vouched and f"{EVIDENCE}{NAME}" not in names:
        signers = None  # theirs is the whole bundle, and it says nothing of who built the wheel
    ours = f"wheels/{said.wheel}"
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
    return read_sums(read_whole(files, SUMS))


def list_findings(
    files: Files, names: tuple[str, ...], signers: Signers | None
) -> Iterator[Finding]:
    """Who vouches for SHA256SUMS. Where signers are named, an unsigned bundle is refused."""
    about = About(name=SUMS)
    if SIGNATURE in names:
        text, signature = (read_whole(files, each) for each in (SUMS, SIGNATURE))
        seal = Seal(data=text, signature=signature, namespace=BUNDLE_NAMESPACE)
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
        else:
            yield sum_finding(about, files, listed[name])


def sum_finding(about: About, files: Files, expected: str) -> Finding:
    try:
        actual = digest(files, about.name)
    except DAMAGE as error:
        return about.refused("sums", f"is damaged: {error}")
    if actual != expected:
        return about.refused("sums", f"sha256 {actual}, {SUMS} says {expected}")
    return about.checked("sums", f"has the sha256 of {SUMS}")


def digest(files: Files, name: str) -> str:
    seen = hashlib.sha256()
    with files.open(name) as file:
        while block := file.read(1 << 20):
            seen.update(block)
    return seen.hexdigest()


def read_said(files: Files, names: tuple[str, ...]) -> Said:
    if SAID not in names:
        return Said(problem=f"is not in the bundle: {UNTOLD}")
    try:
        said = json.loads(read_whole(files, SAID))
        wheel = str(said["wheel"])
        if f"wheels/{wheel}" not in names:
            return Said(problem=f"names {wheel!r}, which is not in wheels/: {UNTOLD}")
        return Said(wheel=wheel, tool=str(said.get("tool", "")))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return Said(problem=f"cannot be read ({type(error).__name__}: {error}): {UNTOLD}")


def wheel_findings(
    files: Files, name: str, is_ours: bool, signers: Signers | None
) -> Iterator[Finding]:
    """`is_ours`: hostwheel built it, and its evidence may be in the bundle."""
    names = files.names()

    def evidence(each: str) -> bytes | None:
        if f"{EVIDENCE}{each}" not in names:
            return None
        return read_whole(files, f"{EVIDENCE}{each}")

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
