"""What an audit says: findings, verdicts and the facts a report draws. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hostwheel.artifact.facts import Image

Verdict = Literal["fits", "unfit", "undecided"]
Standing = Literal["refused", "undecided", "noted", "dismissed", "not covered"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing found. `reason` says why it was refused, dismissed or could not be decided.

    "noted" is worth mending, but nothing that keeps the artifact from running.
    `count` is how many instructions of `feature` it stands for; `remedy` is what to do.
    """

    check: str
    standing: Standing
    message: str
    remedy: str
    file: str | None = None
    function: str | None = None
    address: int | None = None
    instruction: str | None = None
    feature: str | None = None
    count: int = 0
    reason: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Fit:
    """Whether the artifact runs on a known host, and why not (or why it is not decided)."""

    host: str
    title: str
    verdict: Verdict
    reasons: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class FileReport:
    """A native file: `features` is feature → number of instructions beyond the baseline."""

    name: str
    format: str
    machine: str
    size: int
    instructions: int | None
    features: Mapping[str, int]
    images: tuple[Image, ...]
    needed: tuple[str, ...]
    runpath: tuple[str, ...]
    versions: Mapping[str, str]
    build_id: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Floor:
    """The lowest NVIDIA driver that runs the GPU code, and what it follows from."""

    driver: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """The whole answer about one artifact, against `target` (a host's or plan's name) or none.

    `members` is (name, size, packed size or None) of everything in it.
    """

    artifact: str
    kind: str
    size: int
    sha256: str | None
    auditor: str
    target: str | None
    verdict: Verdict | None
    floor: Floor | None
    members: tuple[tuple[str, int, int | None], ...]
    files: tuple[FileReport, ...]
    findings: tuple[Finding, ...]
    fits: tuple[Fit, ...]
