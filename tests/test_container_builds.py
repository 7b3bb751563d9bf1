"""Wheels built in docker and podman, run in a bare container of another release."""

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hostwheel.artifact.binary import read_binary
from hostwheel.artifact.smoked import GROUPS
from hostwheel.build.toolchain import host_compiler
from hostwheel.plan.defines import tree
from hostwheel.plan.recipe import Source
from hostwheel.smoke.checks import Check
from smoke.conftest import NO_EMULATOR
from smoke.installed import unpack
from smoke.recorded import ANSWER, QUESTION
from smoke.spoiled import shift_by_five
from smoke.test_install import NO_TORCH
from tests import containers
from tests.answers import ASK
from tests.bare import Bare, Suite, install_for_it, provided, suite_there
from tests.builds import CHECKOUT, Built, build
from tests.test_build_audit import against_its_plan, fitting

pytestmark = [
    *(pytest.mark.build, pytest.mark.container, pytest.mark.network),
    pytest.mark.timeout(5400),
]
LINE = "no NVIDIA driver on this machine"
ENGINES = {"docker": containers.docker, "podman": containers.podman}
LIB = "llama_cpp/lib"

# What CI does: one build for each engine. The others share all but the engine with them.
CPU = ["podman", pytest.param("docker", marks=pytest.mark.by_hand)]
CUDA = ["docker", pytest.param("podman", marks=pytest.mark.by_hand)]
on_cpu = pytest.mark.parametrize("engine", CPU, indirect=True)

# Why a check of the suite is not run there.
NOT_THERE = (
    *(NO_EMULATOR, NO_TORCH),
    "not run here: it needs g++",
    "gpu: not run: this build has no GPU code",
    "got empty parameter set",  # no other Python is there
)


@pytest.fixture(scope="module")
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """An engine with a base to build on, and a bare system to run on."""
    name = str(request.param)
    with (
        tempfile.TemporaryDirectory(prefix="hostwheel-engine-") as folder,
        pytest.MonkeyPatch.context() as patch,
        ENGINES[name](Path(folder)) as ours,
    ):
        for variable, value in ours.items():
            patch.setenv(variable, value)
        containers.load_base(name)
        containers.load_bare(name)
        yield name


@pytest.fixture(scope="module")
def cpu(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """cpu-avx2, built in a container."""
    folder = tmp_path_factory.mktemp(f"cpu-{engine}")
    return build("cpu-avx2", folder, "--engine", engine, "--base", containers.BASE)


@pytest.fixture(scope="module")
def suite(cpu: Built, smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Suite:
    sources = tree(Source(**cpu.evidence["plan"]["source"])) / "src" / "vendor" / "llama.cpp"
    return provided(cpu, smollm2, sources, tmp_path_factory.mktemp("suite"))


def well(done: "subprocess.CompletedProcess[str]") -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@on_cpu
def test_cpu_avx2_is_what_was_planned(engine: str, cpu: Built) -> None:
    """D1, D3, D4, D6"""
    assert cpu.evidence["plan"]["engine"]["name"] == engine
    argv = (sys.executable, "-m", "hostwheel", "image", "cpu-avx2", "--engine", engine)
    image = subprocess.check_output((*argv, "--base", containers.BASE), text=True, cwd=CHECKOUT)
    assert cpu.evidence["plan"]["engine"]["image"] == image.strip()
    wheel, archive = against_its_plan(cpu)
    assert "aws-g5" in fitting(wheel) & fitting(archive)


@on_cpu
def test_the_same_compiler_makes_the_same_files_out_here(
    cpu: Built, request: pytest.FixtureRequest
) -> None:
    """Of the wheel only RECORD differs: auditwheel writes it in another order."""
    here, there = host_compiler().version_text, cpu.evidence["compiler"]
    if here != there:
        pytest.skip(f"GCC is {here} here and {there} in the base: other bytes")
    local: Built = request.getfixturevalue("cpu_avx2")
    assert cpu.archive.read_bytes() == local.archive.read_bytes()
    ours, theirs = members(local.wheel), members(cpu.wheel)
    assert ours.keys() == theirs.keys()
    differing = [name for name in ours if ours[name] != theirs[name]]
    assert [name.rpartition("/")[2] for name in differing] == ["RECORD"]


def members(wheel: Path) -> Mapping[str, bytes]:
    with zipfile.ZipFile(wheel) as packed:
        return {each.filename: packed.read(each) for each in packed.infolist() if not each.is_dir()}


@pytest.mark.by_hand  # compiled twice
@pytest.mark.parametrize("engine", ["docker"], indirect=True)
def test_the_same_plan_and_image_make_the_same_bytes(engine: str, tmp_path: Path) -> None:
    options = ("--engine", engine, "--base", containers.BASE, "--check-reproducible")
    assert build("cpu-avx2", tmp_path, *options).wheel.is_file()


@on_cpu
def test_the_archive_runs_where_nothing_else_is(
    engine: str, cpu: Built, smollm2: Path, tmp_path: Path
) -> None:
    """C14: a newer system without compiler, CUDA or network."""
    unpack(cpu.archive, tmp_path)
    there = Bare(engine=engine, seen=(tmp_path, smollm2), reports=reports(tmp_path))
    found = there.run("sh", "-c", "command -v gcc || command -v cc || command -v nvcc")
    assert (found.returncode, found.stdout) == (127, "")  # none, says the shell
    programs = tmp_path / cpu.archive.name.removesuffix(".tar.gz") / "bin"
    said = well(there.run(programs / "llama-server", "--version"))
    assert cpu.evidence["plan"]["source"]["llama_cpp_commit"] in said
    asked = ("-m", smollm2, "-p", "8", "-n", "2", "-r", "1")
    assert "tg2" in well(there.run(programs / "llama-bench", *asked))


def reports(folder: Path) -> Path:
    made = folder / "reports"
    made.mkdir()
    return made


def shown(engine: str, built: Built, suite: Suite, folder: Path, *what: str) -> Mapping[str, Check]:
    """What became of these checks of the suite in the bare system."""
    there = Bare(engine=engine, seen=(built.out, *suite.seen()), reports=reports(folder))
    return {check.id: check for check in suite_there(there, built, suite, *what)}


def ids(checks: Mapping[str, Check], outcome: str) -> Sequence[str]:
    return [each for each, check in checks.items() if check.outcome == outcome]


# The numbers of every type of weights take minutes.
@pytest.mark.parametrize(
    "groups",
    [
        pytest.param((*GROUPS, "gpu", "speed"), marks=pytest.mark.by_hand, id="all"),
        pytest.param([each for each in GROUPS if each != "numbers"], id="all but numbers"),
    ],
)
@on_cpu
def test_the_smoke_suite_passes_there(
    engine: str, groups: Sequence[str], cpu: Built, suite: Suite, tmp_path: Path
) -> None:
    """But for what needs an emulator, a compiler, a GPU, torch or other Pythons."""
    checks = shown(engine, cpu, suite, tmp_path, *(f"test_{group}.py" for group in groups))
    assert ids(checks, "failed") == []
    passed = {each.partition("::")[0] for each in ids(checks, "passed")}
    assert passed == {f"smoke/test_{group}.py" for group in groups if group in GROUPS}
    for each in ids(checks, "not run"):
        assert checks[each].reason.startswith(NOT_THERE), checks[each]


def spoiled(built: Built, folder: Path, change: Callable[[Path], object]) -> Built:
    """The same build, but that `change` was made to the libraries in its wheel."""
    out = folder / "spoiled"
    (out / "dist").mkdir(parents=True)
    for name in ("build.json", f"dist/{built.archive.name}"):
        (out / name).write_bytes((built.out / name).read_bytes())
    copied = replace(built, out=out)
    with zipfile.ZipFile(built.wheel) as healthy, zipfile.ZipFile(copied.wheel, "w") as copy:
        healthy.extractall(folder / "unpacked")
        change(folder / "unpacked" / LIB)
        for member in healthy.infolist():
            if (file := folder / "unpacked" / member.filename).is_file():
                copy.writestr(member, file.read_bytes())
    return copied


@on_cpu
def test_a_wheel_that_lacks_a_library_fails_there(
    engine: str, cpu: Built, suite: Suite, tmp_path: Path
) -> None:
    """Nothing there has it. C14, C18"""
    bad = spoiled(cpu, tmp_path, lambda libraries: (libraries / "libggml-cpu.so").unlink())
    asked = "test_generation.py::test_greedy_text_is_as_recorded"
    checks = shown(engine, bad, suite, tmp_path, asked)
    assert ids(checks, "failed") == [f"smoke/{asked}"]
    assert "load_shared_library" in checks[f"smoke/{asked}"].reason  # its first lines


@on_cpu
def test_a_wheel_with_a_damaged_kernel_fails_there(
    engine: str, cpu: Built, suite: Suite, tmp_path: Path
) -> None:
    """One bit in one quantization; the next one is as it was."""
    bad = spoiled(
        cpu, tmp_path, lambda libraries: shift_by_five(libraries, "ggml_vec_dot_q4_K_q8_K")
    )
    asked = [f"test_numbers.py::test_logits[{kind}-plain]" for kind in ("Q4_K", "Q5_K")]
    checks = shown(engine, bad, suite, tmp_path, *asked)
    assert ids(checks, "failed") == [f"smoke/{asked[0]}"]
    assert ids(checks, "passed") == [f"smoke/{asked[1]}"]


def asked_there(engine: str, built: Built, model: Path, folder: Path) -> str:
    """What the wheel says in the bare system, where it and what it requires are installed."""
    site = folder / "site"
    install_for_it(site, built.wheel)
    there = Bare(engine=engine, seen=(site, model), reports=reports(folder))
    argv = ("python3", "-c", ASK, model, QUESTION)
    return well(there.run(*argv, env={"PYTHONPATH": str(site)}))


@pytest.mark.parametrize("engine", CUDA, indirect=True)
def test_a_cuda_13_draft_is_built_and_imports_elsewhere(
    engine: str, smollm2: Path, tmp_path: Path
) -> None:
    """B14, C6, C10: no GPU, no driver, no NCCL, neither where it is built nor where it runs."""
    recipe = str(CHECKOUT / "tests/data/a10g-draft.toml")
    built = build(recipe, tmp_path, "--engine", engine, "--base", containers.BASE)
    wheel, _ = against_its_plan(built)
    assert wheel["floor"]["driver"] == "580.65.06"
    said = asked_there(engine, built, smollm2, tmp_path)
    assert LINE in said
    assert ANSWER in said


@pytest.mark.by_hand  # nvcc 12.4 has no quick mode: a quarter of an hour
@pytest.mark.parametrize("engine", ["docker"], indirect=True)
def test_a_cuda_12_draft_says_cuda_12_everywhere(
    engine: str, smollm2: Path, tmp_path: Path
) -> None:
    """C7, C8: label, libraries, requirements and floor are of the toolkit that built it."""
    containers.load_cuda12_base(engine)
    recipe = str(CHECKOUT / "tests/data/a10g-cu12-draft.toml")
    built = build(recipe, tmp_path, "--engine", engine, "--base", containers.BASE_CUDA12)
    wheel, _ = against_its_plan(built)
    assert wheel["floor"]["driver"] == "525.60.13"
    assert "+cu124.sm86.avx2" in built.wheel.name
    said = asked_there(engine, built, smollm2, tmp_path)
    backend = read_binary(tmp_path / "site" / LIB / "libggml-cuda.so")
    assert set(backend.needed) >= {"libcudart.so.12", "libcublas.so.12"}
    assert LINE in said
    assert ANSWER in said
