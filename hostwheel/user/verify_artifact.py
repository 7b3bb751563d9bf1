"""A wheel or archive against its statement and its evidence; a wheel also against itself."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from hostwheel.artifact.contents import open_artifact, sha256
from hostwheel.artifact.facts import Contents
from hostwheel.errors import BadInput, Refused
from hostwheel.facts.inside import BUILD_INFO
from hostwheel.trust.dsse import read_envelope
from hostwheel.trust.ssh import Signers
from hostwheel.trust.statement import NAME, SBOM, Statement, read_statement, sbom_hashes
from hostwheel.user.verify_finding import About, Finding, Outcome, Read
from hostwheel.user.verify_signed import signature_findings


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """An artifact at hand. `read` gives its evidence by name (build.json, statement.json).

    `listed` is the evidence that a catalog names for it, with hashes. `unsigned` is what it means
    where there is no statement of it.
    """

    name: str
    file: Path
    read: Read
    unsigned: tuple[Outcome, str]
    listed: Mapping[str, str] = field(default_factory=dict)


def artifact_findings(given: Given, signers: Signers | None) -> Iterator[Finding]:
    """All of one artifact; a statement that does not hold is not believed in what it says."""
    about, text, said = About(name=given.name), given.read(NAME), None
    if text is None:
        yield missing(about, given, signers)
    else:
        found, said = believed(about, text, signers)
        yield from found
    if said:
        yield subject_finding(about, given, said)
    yield from evidence_findings(about, given, said)
    yield from inside_findings(about, given, said)


def missing(about: About, given: Given, signers: Signers | None) -> Finding:
    if NAME in given.listed:
        return about.refused("statement", f"the catalog names {NAME}, and it is not there")
    if signers:
        return about.refused("statement", f"no {NAME}, so nothing shows that your signer built it")
    outcome, message = given.unsigned
    return Finding(check="statement", outcome=outcome, about=given.name, message=message)


def believed(
    about: About, text: bytes, signers: Signers | None
) -> tuple[Sequence[Finding], Statement | None]:
    """What is found of an envelope; its statement, if nothing of that is refused."""
    found: list[Finding] = []
    try:
        envelope = read_envelope(text)
        found += signature_findings(about, envelope.seal, signers, envelope.keyid)
        if any(each.outcome == "refused" for each in found):
            return found, None
        said = read_statement(envelope.payload)
    except Refused as error:
        return (*found, about.refused("statement", str(error))), None
    told = f"built by recipe {said.recipe} from {said.source}, plan {said.plan_hash[:12]}…"
    return (*found, about.checked("statement", told)), said


def subject_finding(about: About, given: Given, said: Statement) -> Finding:
    actual, stated = sha256(given.file), said.subjects.get(given.name)
    if stated is None:
        names = ", ".join(said.subjects)
        return about.refused("subject", f"the statement is of another file: {names}")
    if stated != actual:
        return about.refused("subject", f"sha256 {actual}, the statement is of {stated}")
    return about.checked("subject", "the statement is of exactly these bytes")


def evidence_findings(about: About, given: Given, said: Statement | None) -> Iterator[Finding]:
    """Every file that statement or catalog names, against both."""
    stated = {
        name: each for name, each in (said.byproducts if said else {}).items() if name != SBOM
    }
    lists = {"the statement": stated, "the catalog": given.listed}
    for name in sorted({*stated, *given.listed} - {NAME}):
        text = given.read(name)
        if text is None and not given.listed:
            yield about.not_checked("evidence", f"{name} is not beside it")
            continue
        actual = hashlib.sha256(text).hexdigest() if text is not None else "nothing"
        wrong = [who for who, names in lists.items() if names and names.get(name) != actual]
        if wrong:
            expected = lists[wrong[0]].get(name, "no such evidence")
            message = f"{name} is {actual}, {wrong[0]} says {expected}"
            yield about.refused("evidence", message)
        else:
            yield about.checked("evidence", f"{name} is what was published")


def inside_findings(about: About, given: Given, said: Statement | None) -> Iterator[Finding]:
    with TemporaryDirectory(prefix="hostwheel-verify-") as folder:
        try:
            contents = open_artifact(given.file, Path(folder))
        except BadInput as error:
            yield about.refused("record", str(error))
            return
        yield from sbom_findings(about, contents, said)
        yield from record_findings(about, contents)


def sbom_findings(about: About, contents: Contents, said: Statement | None) -> Iterator[Finding]:
    """The SBOM against the statement; in a wheel also against build-info.json."""
    actual = sbom_hashes(contents).get(SBOM, "nothing")
    expected = dict(told_by_wheel(contents))
    if said:
        expected["the statement"] = said.byproducts.get(SBOM, "nothing")
    wrong = [who for who, value in expected.items() if value != actual]
    if wrong:
        message = f"{SBOM} in it is {actual}, {wrong[0]} says {expected[wrong[0]]}"
        yield about.refused("sbom", message)
    elif expected:
        yield about.checked("sbom", f"the SBOM in it is the one of {' and '.join(expected)}")
    else:
        yield about.not_checked("sbom", "nothing says which SBOM belongs in it")


def told_by_wheel(contents: Contents) -> Iterator[tuple[str, str]]:
    for member in contents.members:
        if contents.wheel and member.name == BUILD_INFO:
            try:
                yield "build-info.json", json.loads(member.path.read_bytes())["sbom"]["sha256"]
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                yield "build-info.json", f"nothing that can be read ({error})"


def record_findings(about: About, contents: Contents) -> Iterator[Finding]:
    if contents.wheel is None:
        return
    wheel = contents.wheel  # whether its file name is one for pip is another question
    read = (each for each in wheel.problems if not each.startswith("file name: "))
    problems = (*read, *wheel.record)
    if problems:
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        yield about.refused("record", f"{problems[0]}{more}")
    else:
        yield about.checked("record", "the files in it are those of its RECORD")
