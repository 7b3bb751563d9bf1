"""Run the suite of the top folder `smoke` on what a build left, and write smoke.json."""

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hostwheel.errors import BadInput, MachineLacks, StepFailed
from hostwheel.facts.cpuid import missing
from hostwheel.plan.defines import tree
from hostwheel.plan.recipe import Source
from hostwheel.run import echo, say, stream
from hostwheel.smoke.built import Built, copy_build, read_build
from hostwheel.smoke.checks import Check, read_checks
from hostwheel.smoke.emulate import find_emulator
from hostwheel.smoke.model import install_smollm2
from hostwheel.smoke.record import Run, evidence_of, has_passed, take_away, write_evidence

PACKAGE = Path(__file__).parents[1]
NEEDED = ("gguf", "numpy", "openai", "pytest", "pytest_timeout", "uv")
TESTS_FAILED = 1  # pytest's exit status
SLOWEST = 900  # seconds that one check may take


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What is asked of the suite: `out` is a recipe's own folder, `only` names files of the suite.

    `model` and `source` are downloaded, or looked for where builds happen, when they are None.
    """

    out: Path
    only: tuple[str, ...] = ()
    model: Path | None = None
    source: Path | None = None
    gpu: bool = False


def smoke(request: Request) -> Mapping[str, Any]:
    """Run the checks; return, and for the whole suite write, what smoke.json holds.

    BadInput without such a build, MachineLacks without what the checks need.
    """
    built = read_build(request.out)
    chosen = [find_check(name) for name in request.only]
    if lacking := missing(tuple(built.plan["features"])):
        return not_here(request, built, lacking)
    require(built.plan)
    with tempfile.TemporaryDirectory(prefix="hostwheel-smoke-") as folder:
        run = run_copies(request, built, Path(folder), chosen)
    evidence = evidence_of(built, run)
    if run.whole:  # part of the suite proves no artifact
        write_evidence(request.out, evidence)
    return evidence


def run_copies(request: Request, built: Built, work: Path, chosen: Sequence[Path]) -> Run:
    """Run the suite, or the files `chosen` of it, on copies in the folder `work`."""
    copy_build(request.out, built, work)
    argv = command(request, built, work, chosen)
    if not chosen:
        take_away(request.out)
    run_suite(argv, request.out / ("smoke-only.log" if chosen else "smoke.log"))
    return Run(
        suite=suite(),
        whole=not chosen,
        checks=read_checks(work / "report.xml"),
        collected=(work / "collected").read_text(encoding="utf-8").splitlines(),
    )


def suite() -> Path:
    """The folder `smoke` that belongs to this hostwheel: in a checkout, or inside the package."""
    for folder in (PACKAGE.parent / "smoke", PACKAGE / "_data" / "smoke"):
        if (folder / "conftest.py").is_file():
            return folder
    raise MachineLacks(f"no suite beside {PACKAGE}: install hostwheel anew, or use a checkout")


def find_check(name: str) -> Path:
    file = suite() / f"test_{name}.py"
    if file.is_file():
        return file
    known = ", ".join(sorted(each.stem.removeprefix("test_") for each in suite().glob("test_*.py")))
    raise BadInput(f"the suite has no file {name!r}: it has {known}")


def not_here(request: Request, built: Built, lacking: Sequence[str]) -> Mapping[str, Any]:
    """Nothing is run on a CPU that the build is not for: what passes there shows nothing.

    Nor does it take away what was shown of the same bytes elsewhere.
    """
    reason = f"not run here: this CPU lacks {' '.join(lacking)}, which the build is compiled for"
    check = Check(id=suite().name, outcome="not run", reason=reason, seconds=0)
    run = Run(suite=suite(), whole=not request.only, collected=(), checks=(check,))
    evidence = evidence_of(built, run)
    if has_passed(request.out, built):
        say(f"{request.out / 'smoke.json'} stays: it is of the same files, and passed elsewhere")
    elif run.whole:
        write_evidence(request.out, evidence)
    return evidence


def require(plan: Mapping[str, Any]) -> None:
    """MachineLacks for what would only turn checks into "not run"."""
    if lacking := [name for name in NEEDED if find_spec(name) is None]:
        names = " ".join(name.replace("_", "-") for name in lacking)
        raise MachineLacks(
            f"the suite needs {names} beside hostwheel: uv pip install --python {sys.executable}"
            f" {names}"
        )
    if plan["host"]["cpu"]["emulate"]:
        find_emulator()


def command(request: Request, built: Built, work: Path, chosen: Sequence[Path]) -> tuple[str, ...]:
    """pytest's command line."""
    source = request.source or tree(Source(**built.plan["source"])) / "src" / "vendor" / "llama.cpp"
    if not (source / "models").is_dir():
        raise MachineLacks(
            f"llama.cpp's sources are not in {source}: build here, or give --source FOLDER"
        )
    if request.model and not request.model.is_file():
        raise BadInput(f"there is no model {request.model}")
    model = request.model or install_smollm2(work / "smollm2")
    given = {
        "wheel": work / built.plan["wheel"],
        "archive": work / built.plan["archive"],
        "plan": work / "build.json",
        "source": source,
        "model": model,
        "rootdir": suite().parent,
        "basetemp": work / "pytest",
        "junit-xml": work / "report.xml",
        "collected": work / "collected",
        "timeout": SLOWEST,
    }
    pytest = (
        *(sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-o", "addopts="),
        *("-p", "hostwheel.smoke.collected"),
        "--continue-on-collection-errors",  # a file that cannot be read is one more failure
    )
    options = (f"--{name}={value}" for name, value in given.items())
    gpu = ("--gpu",) if request.gpu else ()
    return (*pytest, *options, *gpu, *map(str, chosen or [suite()]))


def run_suite(argv: Sequence[str], log: Path) -> None:
    """Run pytest with its output to stderr and `log`. StepFailed unless it came to its end."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    echo(argv)
    with log.open("w", encoding="utf-8") as sink:
        code = stream(argv, env=env, cwd=None, each=lambda line: tell(line, sink.write))
    if code not in (0, TESTS_FAILED):
        raise StepFailed(f"pytest did not run the suite (exit status {code}); whole log: {log}")


def tell(line: str, write: Callable[[str], object]) -> None:
    write(line)
    print(line, end="", file=sys.stderr, flush=True)


def summary(evidence: Mapping[str, Any]) -> Iterator[str]:
    """For people: what failed, what was not run for which reason, and the counts."""
    checks = [Check(**each) for each in evidence["checks"]]
    for check in checks:
        if check.outcome == "failed":
            yield f"failed: {check.id}: {first_line(check.reason)}"
    reasons = Counter(first_line(check.reason) for check in checks if check.outcome == "not run")
    for reason, count in reasons.items():
        yield f"not run ({count}): {reason}"
    for lacking in evidence["unproved"]:
        yield f"not proved: {first_line(lacking)}"
    counts = Counter(check.outcome for check in checks)
    yield ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("passed", "failed", "not run"))


def first_line(text: str) -> str:
    return text.partition("\n")[0]
