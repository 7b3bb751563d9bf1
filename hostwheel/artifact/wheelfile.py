"""A wheel's accounts of itself: file name, METADATA, WHEEL, RECORD."""

import base64
import csv
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from email.message import Message
from email.parser import HeaderParser

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion

from hostwheel.artifact.facts import Member, WheelFacts

LARGEST_ACCOUNT = 16 << 20  # bytes of METADATA, WHEEL or RECORD
UNRECORDED = ("RECORD", "RECORD.jws", "RECORD.p7s")  # PEP 427: RECORD cannot hold these
HASHES = ("sha256", "sha384", "sha512")


def read_wheel(filename: str, members: Sequence[Member]) -> WheelFacts:
    """What a wheel of this file name and these members says; never raises for what is wrong."""
    by_name = {member.name: member for member in members}
    infos = sorted({top for name in by_name if (top := name.split("/")[0]).endswith(".dist-info")})
    accounts = Accounts(by_name, infos[0] if infos else "")
    name, version, version_text, tags = from_filename(filename, accounts.problems)
    metadata, wheel = accounts.headers("METADATA"), accounts.headers("WHEEL")
    record = accounts.text("RECORD")
    return WheelFacts(
        name=name,
        version=version,
        version_text=version_text,
        tags=tags,
        infos=tuple(infos),
        metadata_name=metadata["Name"],
        metadata_version=metadata["Version"],
        requires=tuple(metadata.get_all("Requires-Dist", ())),
        wheel_tags=tuple(wheel.get_all("Tag", ())),
        record=() if record is None else tuple(differences(record, by_name)),
        problems=tuple(accounts.problems),
    )


class Accounts:
    """The files of the dist-info folder; what cannot be read is noted in `problems`."""

    def __init__(self, members: Mapping[str, Member], info: str) -> None:
        self.members, self.info = members, info
        self.problems: list[str] = []

    def text(self, name: str) -> str | None:
        member = self.members.get(f"{self.info}/{name}")
        if member is None:
            self.problems.append(f"no {name} in its dist-info folder")
        elif member.size > LARGEST_ACCOUNT:
            self.problems.append(f"{member.name} has {member.size} bytes")
        else:
            try:
                return member.path.read_text(encoding="utf-8")
            except UnicodeDecodeError as error:
                self.problems.append(f"{member.name} is not UTF-8: {error}")
        return None

    def headers(self, name: str) -> Message:
        return HeaderParser().parsestr(self.text(name) or "")


def from_filename(filename: str, problems: list[str]) -> tuple[str, str, str, tuple[str, ...]]:
    """Name, version, version as written, tags; all empty where the name does not parse."""
    try:
        name, version, _, tags = parse_wheel_filename(filename)
    except (InvalidWheelFilename, InvalidVersion) as error:
        problems.append(f"file name: {error}")
        return "", "", "", ()
    return name, str(version), filename.split("-")[1], tuple(sorted(map(str, tags)))


def differences(record: str, members: Mapping[str, Member]) -> Iterator[str]:
    """Ways in which RECORD and the members differ."""
    listed: set[str] = set()
    try:
        rows = list(csv.reader(record.splitlines(), strict=True))
    except csv.Error as error:
        yield f"RECORD is no CSV: {error}"
        return
    for row in rows:
        if len(row) != 3:
            yield f"RECORD has a row of {len(row)} columns: {','.join(row)[:80]}"
        elif row[0] in listed:
            yield f"{row[0]} is in RECORD twice"
        else:
            listed.add(row[0])
            yield from difference(row[0], row[1], row[2], members)
    for name in members:
        if name not in listed and name.rpartition("/")[2] not in UNRECORDED:
            yield f"{name} is not in RECORD"


def difference(name: str, digest: str, size: str, members: Mapping[str, Member]) -> Iterator[str]:
    member = members.get(name)
    if member is None:
        yield f"{name} is in RECORD and not in the wheel"
    elif name.rpartition("/")[2] in UNRECORDED:
        return
    elif digest.partition("=")[0] not in HASHES:
        yield f"{name} has no sha256 or stronger hash in RECORD"
    elif digest != recorded(member, digest.partition("=")[0]):
        yield f"{name} has other bytes than RECORD says"
    elif size and size != str(member.size):
        yield f"{name} has {member.size} bytes, RECORD says {size}"


def recorded(member: Member, algorithm: str) -> str:
    """A member's hash in RECORD's form."""
    if algorithm == "sha256":
        digest = bytes.fromhex(member.sha256)
    else:
        with member.path.open("rb") as file:
            digest = hashlib.file_digest(file, algorithm).digest()
    return f"{algorithm}={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"
