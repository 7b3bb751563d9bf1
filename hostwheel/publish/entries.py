"""Evidence → what the catalog says of each file, and the objects that go up."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from hostwheel.errors import Refused
from hostwheel.facts.versions import numeric
from hostwheel.publish.catalog import Entry, Needs, object_key
from hostwheel.publish.evidence import Artifact, Evidence
from hostwheel.publish.label import newest
from hostwheel.publish.objects import Upload

# What x86-64 began with: files that ask for less than any machine has.
OLDEST = {"GLIBC": "2.2.5", "GLIBCXX": "3.4"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """A file to publish: its line in the catalog and all that goes up with it."""

    entry: Entry
    file: Path
    uploads: tuple[Upload, ...]


def items(evidence: Evidence, uploaded: str) -> Iterator[Item]:
    """`uploaded` is the time, RFC 3339 in UTC."""
    for artifact in evidence.artifacts:
        texts = {**evidence.texts, "audit.html": artifact.page}
        hashes = {name: hashlib.sha256(text).hexdigest() for name, text in texts.items()}
        entry = entry_of(artifact, evidence.plan, hashes, uploaded)
        beside = tuple(
            Upload(key=object_key(hashes[name], name), source=text, sha256=hashes[name])
            for name, text in texts.items()
        )
        yield Item(
            entry=entry, file=artifact.file, uploads=(*file_uploads(entry, artifact.file), *beside)
        )


def entry_of(
    artifact: Artifact, plan: Mapping[str, Any], hashes: Mapping[str, str], uploaded: str
) -> Entry:
    made = Entry(
        kind=artifact.kind,
        recipe=plan["recipe"],
        title=plan["host"]["title"],
        filename=artifact.file.name,
        sha256=artifact.sha256,
        size=artifact.size,
        uploaded=uploaded,
        version=plan["version"],
        platform_tag=plan["platform_tag"],
        requires_python="",
        requires=(),
        metadata="",
        needs=needs_of(plan, artifact.report),
        evidence=dict(sorted(hashes.items())),
    )
    return described(made, artifact.file) if artifact.kind == "wheel" else made


def described(entry: Entry, wheel: Path) -> Entry:
    """With what the wheel's own METADATA says. Refused where its version is another."""
    text = read_metadata(wheel)
    said: Message = HeaderParser().parsestr(text.decode())
    if said["Version"] != entry.version:
        raise Refused(
            f"{wheel}: METADATA has version {said['Version']}, planned is {entry.version}: "
            "pip and uv would refuse it; build it again"
        )
    return replace(
        entry,
        requires_python=said.get("Requires-Python", ""),
        requires=tuple(said.get_all("Requires-Dist", ())),
        metadata=hashlib.sha256(text).hexdigest(),
    )


def read_metadata(wheel: Path) -> bytes:
    """The bytes of METADATA; Refused where there is not exactly one."""
    try:
        with ZipFile(wheel) as archive:
            return metadata_in(archive)
    except (OSError, BadZipFile) as error:
        raise Refused(f"{wheel}: not read as a wheel: {error}; build it again") from None


def metadata_in(wheel: ZipFile) -> bytes:
    names = [each for each in wheel.namelist() if is_metadata(each)]
    if len(names) != 1:
        found = f"{len(names)} METADATA files, expected one"
        raise Refused(f"{wheel.filename}: {found}; build it again")
    return wheel.read(names[0])


def is_metadata(name: str) -> bool:
    return name.count("/") == 1 and name.endswith(".dist-info/METADATA")


def needs_of(plan: Mapping[str, Any], report: Mapping[str, Any]) -> Needs:
    """What the audit found in the files; of the plan's and its driver floor the higher one."""
    needs, floor = planned_needs(plan), report["floor"]
    drivers = (needs.driver, floor["driver"] if floor else None)
    return replace(
        needs,
        driver=max((each for each in drivers if each), key=numeric, default=None),
        glibc=newest(report, "GLIBC") or OLDEST["GLIBC"],
        glibcxx=newest(report, "GLIBCXX") or OLDEST["GLIBCXX"],
    )


def planned_needs(plan: Mapping[str, Any]) -> Needs:
    """Of a plan, or of the build-info.json in a wheel, which says the same: the host's system."""
    cuda, host = plan["cuda"] or {}, plan["host"]
    return Needs(
        features=tuple(plan["features"]),
        cuda=cuda.get("release"),
        architecture=cuda.get("architecture"),
        driver=cuda.get("driver"),
        glibc=host["glibc"],
        glibcxx=host["glibcxx"],
    )


def file_uploads(entry: Entry, file: Path) -> Iterator[Upload]:
    yield Upload(key=entry.key, source=file, sha256=entry.sha256)
    if entry.metadata:
        text = read_metadata(file)
        yield Upload(key=f"{entry.key}.metadata", source=text, sha256=entry.metadata)
