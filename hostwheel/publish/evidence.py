"""The evidence beside a build: complete, passing, and for exactly these bytes, or refused."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from hostwheel.artifact.contents import sha256
from hostwheel.artifact.smoked import unproved
from hostwheel.audit.page import page
from hostwheel.audit.read_report import read_report
from hostwheel.errors import BadInput, Refused
from hostwheel.facts.policy import BUDGET_BYTES
from hostwheel.plan.plan import plan_hash
from hostwheel.publish.label import label_problems, tag_problems

FILES: Mapping[str, str] = MappingProxyType(  # and what writes them
    {
        "build.json": "hostwheel build {recipe}{option}",
        "audit.json": "hostwheel audit {out}/dist/* --plan {out}/build.json --out {out}",
        "smoke.json": "hostwheel smoke {recipe}{option}",
    }
)
KINDS: Mapping[str, str] = MappingProxyType(
    {"build.json": "a build", "audit.json": "an audit", "smoke.json": "a smoke test"}
)
# What content of another form raises, wherever it is read.
FORM = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
SCHEMA = 1
SHOWN = 20  # problems that are told at once


@dataclass(frozen=True, kw_only=True, slots=True)
class Artifact:
    """A file of dist/. `report` is what audit.json says of it, `page` its audit.html."""

    file: Path
    kind: Literal["wheel", "archive"]
    sha256: str
    size: int
    report: Mapping[str, Any]
    page: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """What lies in a recipe's out/ folder. `texts` are the files as read, by name."""

    out: Path
    plan: Mapping[str, Any]
    artifacts: tuple[Artifact, ...]
    texts: Mapping[str, bytes]
    not_run: int


def read_evidence(out: Path) -> Evidence:
    """Refused with all that is wrong; BadInput where nothing was built."""
    if not (out / "build.json").is_file():
        raise BadInput(f"{out}: no build.json in it; give the out/RECIPE folder of a build")
    texts = {name: read(out, name) for name in FILES}
    build, audit, smoke = (parsed(out, name, text) for name, text in texts.items())
    with of_known_form(out, "build.json"):
        check(out, tuple(problems_of_build(out, build)))
    with of_known_form(out, "audit.json"):
        check(out, tuple(problems_of_audit(out, build, audit)))
    with of_known_form(out, "smoke.json"):
        check(out, tuple(problems_of_recipe(out, build, smoke)))
        check(out, tuple(problems_of_smoke(out, build, smoke)))
        not_run = sum(each["outcome"] == "not run" for each in smoke["checks"])
    with of_known_form(out, "audit.json"):
        artifacts = tuple(read_artifacts(out, build, audit))
        pages = tuple(problems_of_pages(out, artifacts))
        own = tuple(each for one in artifacts for each in problems_of(one, build["plan"]))
    check(out, (*own, *pages))
    return Evidence(out=out, plan=build["plan"], artifacts=artifacts, texts=texts, not_run=not_run)


@contextmanager
def of_known_form(out: Path, name: str) -> Iterator[None]:
    """Refused where the content of this file is not as hostwheel writes it."""
    try:
        yield
    except FORM:
        raise Refused(
            f"{out / name}: is not {KINDS[name]} of this hostwheel; run `{how_to(out, name)}`"
        ) from None


def check(out: Path, problems: Sequence[str]) -> None:
    if problems:
        more = len(problems) - SHOWN
        shown = (*problems[:SHOWN], *((f"and {more} more",) if more > 0 else ()))
        raise Refused(f"{out} is not published:\n" + "\n".join(f"  {each}" for each in shown))


def how_to(out: Path, name: str) -> str:
    """The command that writes this file of a build, which may lie elsewhere than in out/RECIPE."""
    recipe = named_recipe(out)
    option = "" if out.resolve() == Path("out", recipe).resolve() else f" --out {out.parent}"
    return FILES[name].format(recipe=recipe, option=option, out=out)


def named_recipe(out: Path) -> str:
    """As build.json names it; the folder where that cannot be read."""
    try:
        recipe = json.loads((out / "build.json").read_bytes())["recipe"]
    except (OSError, *FORM):
        return out.name
    return recipe if isinstance(recipe, str) else out.name


def read(out: Path, name: str) -> bytes:
    try:
        return (out / name).read_bytes()
    except OSError as error:
        raise Refused(
            f"{out / name}: {error.strerror}, and without it nothing is proved: "
            f"run `{how_to(out, name)}`"
        ) from None


def parsed(out: Path, name: str, text: bytes) -> Any:
    with of_known_form(out, name):
        content = json.loads(text)
        schema = content["schema"]
    if schema != SCHEMA:
        raise Refused(f"{out / name}: schema {schema}, this hostwheel reads {SCHEMA}")
    return content


def problems_of_build(out: Path, build: Mapping[str, Any]) -> Iterator[str]:
    """The plan holds, is no draft, and dist/ has exactly the bytes that were built."""
    plan = build["plan"]
    if build["plan_hash"] != plan_hash(plan):
        yield f"build.json: its plan was changed (hash {build['plan_hash'][:12]}…): build it again"
    if plan["draft"]:
        yield f"{plan['recipe']} is a draft, for tests only: build a recipe without `draft`"
    built = {each["name"]: each["sha256"] for each in build["artifacts"]}
    found = {path.name: path for path in (out / "dist").glob("*")}
    for name in sorted({*built, *found, plan["wheel"], plan["archive"]}):
        if name not in built:
            yield f"dist/{name}: not in build.json: take it away, or build again"
        elif name not in found:
            yield f"dist/{name}: was built and is not there: build it again"
        elif name not in (plan["wheel"], plan["archive"]):
            yield f"dist/{name}: the plan names {plan['wheel']} and {plan['archive']}"
        elif wrong := wrong_bytes(found[name], built[name]):
            yield f"dist/{name}: {wrong}: build it again"


def wrong_bytes(file: Path, built: str) -> str:
    """Why this is not the file that was built with this sha256; empty where it is."""
    try:
        if not file.is_file():
            return "no file, or a link to none"
        actual = sha256(file)
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return "" if actual == built else f"sha256 {actual}, built was {built}"


def problems_of_audit(
    out: Path, build: Mapping[str, Any], audit: Mapping[str, Any]
) -> Iterator[str]:
    """Every artifact was held against this plan, as the bytes it is, and fits."""
    reports = {each["artifact"]: each for each in audit["reports"]}
    target = f"plan {build['plan']['recipe']}"
    for artifact in build["artifacts"]:
        name, report = artifact["name"], reports.get(artifact["name"])
        again = f"run `{how_to(out, 'audit.json')}`"
        if report is None:
            yield f"audit.json says nothing of {name}: {again}"
        elif report["sha256"] != artifact["sha256"]:
            yield f"audit.json is of another {name} (sha256 {report['sha256']}): {again}"
        elif report["target"] != target:
            yield f"audit.json holds {name} against {report['target']}, not {target}: {again}"
        elif refused := [each for each in report["findings"] if each["standing"] == "refused"]:
            first = refused[0]
            more = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
            yield f"the audit refuses {name}: {first['check']}: {first['message']}{more}"
        elif report["verdict"] != "fits":
            yield f"the audit says {report['verdict']} of {name}, not fits: see audit.html"


def problems_of_recipe(
    out: Path, build: Mapping[str, Any], smoke: Mapping[str, Any]
) -> Iterator[str]:
    """All are of the plan's recipe; audit.json, which names the plan, is looked at above."""
    recipe = build["plan"]["recipe"]
    for name, content in (("build.json", build), ("smoke.json", smoke)):
        if content["recipe"] != recipe:
            again = how_to(out, name)
            yield f"{name} is of {content['recipe']}, the plan of {recipe}: run `{again}`"


def problems_of_smoke(
    out: Path, build: Mapping[str, Any], smoke: Mapping[str, Any]
) -> Iterator[str]:
    """The whole suite ran on these bytes, and nothing failed. "Not run" is said, and no pass.

    smoke.json without `suite` is of an older hostwheel: a form that is not known here.
    """
    again = f"run `{how_to(out, 'smoke.json')}`"
    built = {each["name"]: each["sha256"] for each in build["artifacts"]}
    if smoke["artifacts"] != built:
        yield f"smoke.json is of other files than build.json: {again}"
    outcomes = [each["outcome"] for each in smoke["checks"]]
    failed = [each["id"] for each in smoke["checks"] if each["outcome"] == "failed"]
    if failed:
        yield f"{len(failed)} smoke tests failed, {failed[0]} first: mend it, build, and {again}"
    elif "passed" not in outcomes:
        reason = next((each["reason"] for each in smoke["checks"]), "no check in it")
        yield f"smoke.json proves nothing, no check ran ({reason}): {again} where it can run"
    elif lacking := tuple(unproved(smoke["checks"], smoke["suite"]["files"], build["plan"])):
        yield from (f"smoke.json: {each}: {again}" for each in lacking)
    elif smoke["passed"] is not True:
        yield f"smoke.json does not say passed: {again}"


def read_artifacts(
    out: Path, build: Mapping[str, Any], audit: Mapping[str, Any]
) -> Iterator[Artifact]:
    reports = [each["artifact"] for each in audit["reports"]]
    for each in build["artifacts"]:
        number = reports.index(each["name"])
        yield Artifact(
            file=out / "dist" / each["name"],
            kind="wheel" if each["name"] == build["plan"]["wheel"] else "archive",
            sha256=each["sha256"],
            size=(out / "dist" / each["name"]).stat().st_size,
            report=audit["reports"][number],
            page=read_page(out, page_name(number)),
        )


def page_name(number: int) -> str:
    """As `hostwheel audit --out` calls the page of the report at this place in audit.json."""
    return "audit.html" if number == 0 else f"audit-{number + 1}.html"


def read_page(out: Path, name: str) -> bytes:
    try:
        return (out / name).read_bytes()
    except OSError as error:
        again = how_to(out, "audit.json")
        raise Refused(f"{out / name}: {error.strerror}: run `{again}`") from None


def problems_of_pages(out: Path, artifacts: Sequence[Artifact]) -> Iterator[str]:
    """People believe the page, and the gates look at audit.json: it is drawn anew from that."""
    for artifact in artifacts:
        if artifact.page != page(read_report(artifact.report)).encode():
            again = how_to(out, "audit.json")
            yield f"{artifact.file.name}: its page does not say what audit.json says: run `{again}`"


def problems_of(artifact: Artifact, plan: Mapping[str, Any]) -> Iterator[str]:
    """What evidence cannot excuse: size, label and platform tag."""
    name = artifact.file.name
    if artifact.size > BUDGET_BYTES:
        yield (
            f"{name}: {artifact.size:,} bytes, the budget is {BUDGET_BYTES:,}: compile for fewer "
            "GPU architectures, and see the sizes in audit.html"
        )
    for problem in (*label_problems(plan, artifact.report), *tag_problems(plan, artifact.report)):
        yield f"{name}: {problem}"
