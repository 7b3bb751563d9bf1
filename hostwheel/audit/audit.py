"""One artifact in, one report out."""

import dataclasses
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hostwheel import __version__
from hostwheel.artifact.contents import open_artifact
from hostwheel.artifact.facts import Artifact, File, Member
from hostwheel.artifact.native import Progress, no_progress, read_files
from hostwheel.audit.checks import CHECKS
from hostwheel.audit.cuda import driver_floor
from hostwheel.audit.result import FileReport, Finding, Fit, Report, Verdict
from hostwheel.audit.target import Target
from hostwheel.errors import BadInput
from hostwheel.facts.host import Host

AUDITOR = f"hostwheel {__version__}"


def audit(
    path: Path,
    target: Target,
    hosts: Sequence[Host],
    symbols: Path | None,
    progress: Progress = no_progress,
) -> Report:
    """Read `path` and say whether it fits `target`, and which of `hosts` it fits.

    `symbols` is the folder of saved function names. BadInput for what cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="hostwheel-audit-") as folder:
        contents = open_artifact(path, Path(folder))
        files = read_once(contents.members, symbols, progress)
        if not files and contents.kind == "file":
            raise BadInput(f"{path}: neither an ELF, PE or Mach-O file nor an archive of such")
        return judge(Artifact(contents=contents, files=files), target, hosts)


def read_once(
    members: Iterable[Member], symbols: Path | None, progress: Progress
) -> tuple[File, ...]:
    """The facts of all native files; of several with the same bytes, one is read."""
    members = tuple(members)
    firsts = {member.sha256: member for member in reversed(members)}
    found: defaultdict[str, list[File]] = defaultdict(list)
    for file in read_files(tuple(firsts.values()), symbols, progress):
        found[file.member.sha256].append(file)
    return tuple(
        dataclasses.replace(file, member=member)
        for member in members
        for file in found[member.sha256]
    )


def judge(artifact: Artifact, target: Target, hosts: Iterable[Host]) -> Report:
    """Pure: facts in, report out."""
    contents = artifact.contents
    found = tuple(findings(artifact, target))
    gpu = target.host.gpu if target.host else None
    return Report(
        artifact=contents.path.name,
        kind=contents.kind,
        size=contents.size,
        sha256=contents.sha256,
        auditor=AUDITOR,
        target=target.name,
        verdict=verdict(found) if target.host else None,
        floor=driver_floor(artifact, gpu.compute if gpu else None),
        members=tuple((each.name, each.size, each.packed) for each in contents.members),
        files=tuple(map(file_report, artifact.files)),
        findings=found,
        fits=tuple(fit(artifact, host) for host in hosts),
    )


def findings(artifact: Artifact, target: Target) -> Iterator[Finding]:
    """Everything that the checks find, what was dismissed included."""
    for check in CHECKS:
        for finding in check.run(artifact, target):
            yield strict(finding) if target.plan else finding


def strict(finding: Finding) -> Finding:
    """In our own files nothing is left open."""
    if finding.standing == "dismissed":
        return finding
    return dataclasses.replace(
        finding,
        standing="refused",
        remedy=finding.remedy or "see the plan",
    )


def verdict(found: Iterable[Finding]) -> Verdict:
    standings = {finding.standing for finding in found}
    if "refused" in standings:
        return "unfit"
    return "undecided" if standings & {"undecided", "not covered"} else "fits"


def fit(artifact: Artifact, host: Host) -> Fit:
    found = tuple(findings(artifact, Target(host=host)))
    said = verdict(found)
    deciding = {"unfit": ("refused",), "undecided": ("undecided", "not covered"), "fits": ()}[said]
    return Fit(
        host=host.name,
        title=host.title,
        verdict=said,
        reasons=tuple(reasons(each for each in found if each.standing in deciding)),
    )


def reasons(found: Iterable[Finding]) -> Iterator[str]:
    """One line for files that need the same features, one for each other finding."""
    features: dict[str, list[str]] = {}
    others: dict[str, None] = {}
    for finding in found:
        name = (finding.file or "").rpartition("/")[2]
        if finding.feature and finding.check == "ISA001":
            features.setdefault(name, []).append(finding.feature)
        else:
            others[f"{name}: {finding.message}" if name else finding.message] = None
    same: defaultdict[str, list[str]] = defaultdict(list)
    for name, needed in features.items():
        same[" ".join(dict.fromkeys(needed))].append(name)
    for needed_ones, names in same.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"{names[0]}{more} {'need' if more else 'needs'} {needed_ones}"
    yield from others


def file_report(file: File) -> FileReport:
    native, code = file.native, file.code
    return FileReport(
        name=file.member.name,
        format=native.format,
        machine=native.machine,
        size=file.member.size,
        instructions=code.instructions if code else None,
        features={name: use.count for name, use in code.used.items()} if code else {},
        images=file.images,
        needed=native.needed,
        runpath=native.runpath or native.rpath,
        versions=native.versions,
        build_id=native.build_id,
    )
