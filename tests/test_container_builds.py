"""Wheels built in docker and podman, run in a bare container of another release."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hostwheel.artifact.binary import read_binary
from smoke.installed import unpack
from smoke.recorded import ANSWER, QUESTION
from tests import containers
from tests.answers import ASK
from tests.builds import CHECKOUT, Built, build
from tests.test_build_audit import against_its_plan, fitting

pytestmark = [
    *(pytest.mark.build, pytest.mark.container, pytest.mark.network),
    pytest.mark.timeout(5400),
]
LINE = "no NVIDIA driver on this machine"
ENGINES = {"docker": containers.docker, "podman": containers.podman}


# What CI does: one build for each engine. The others share all but the engine with them.
CPU = ["podman", pytest.param("docker", marks=pytest.mark.by_hand)]
CUDA = ["docker", pytest.param("podman", marks=pytest.mark.by_hand)]


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Bare:
    """A wheel and its requirements, an unpacked archive and a model, seen by a bare container."""

    engine: str
    site: Path
    archive: Path
    model: Path

    def run(self, *argv: str) -> "subprocess.CompletedProcess[str]":
        limits = ("--ulimit=nproc=4096:4096", "--ulimit=nofile=20000:20000")
        mounts = (
            f"--volume={self.site}:/site:ro",
            f"--volume={self.archive}:/archive:ro",
            f"--volume={self.model}:/model.gguf:ro",
        )
        run = (self.engine, "run", "--rm", "--network=none", *limits, *mounts)
        command = (*run, "--env=PYTHONPATH=/site", containers.BARE, *argv)
        return subprocess.run(command, capture_output=True, text=True, timeout=600)


def bare(engine: str, built: Built, model: Path, folder: Path) -> Bare:
    """Debian 13's Python is 3.13: for it the wheel is installed, not for ours."""
    for_it = ("--python-version=3.13", "--python-platform=x86_64-manylinux_2_40")
    uv = (sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target", folder / "site")
    subprocess.run((*uv, *for_it, "--only-binary=:all:", built.wheel), check=True)
    unpack(built.archive, folder)
    unpacked = folder / built.archive.name.removesuffix(".tar.gz")
    return Bare(engine=engine, site=folder / "site", archive=unpacked, model=model)


def well(done: "subprocess.CompletedProcess[str]") -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("engine", CPU, indirect=True)
def test_cpu_avx2_is_built_audited_and_runs_elsewhere(
    engine: str, smollm2: Path, tmp_path: Path
) -> None:
    """C14, D1, D3, D4, D6: what is packed runs where nothing else is, on a newer system."""
    built = build("cpu-avx2", tmp_path, "--engine", engine, "--base", containers.BASE)
    assert built.evidence["plan"]["engine"]["name"] == engine
    wheel, archive = against_its_plan(built)
    assert "aws-g5" in fitting(wheel) & fitting(archive)
    there = bare(engine, built, smollm2, tmp_path)
    assert there.run("sh", "-c", "command -v gcc || command -v cc || command -v nvcc").returncode
    assert well(there.run("python3", "-c", ASK, "/model.gguf", QUESTION)).strip() == ANSWER
    assert built.evidence["plan"]["source"]["llama_cpp_commit"] in well(
        there.run("/archive/bin/llama-server", "--version")
    )
    bench = ("/archive/bin/llama-bench", "-m", "/model.gguf", "-p", "8", "-n", "2", "-r", "1")
    assert "tg2" in well(there.run(*bench))


@pytest.mark.parametrize("engine", CUDA, indirect=True)
def test_a_cuda_13_draft_is_built_and_imports_elsewhere(
    engine: str, smollm2: Path, tmp_path: Path
) -> None:
    """B14, C6, C10: no GPU, no driver, no NCCL, neither where it is built nor where it runs."""
    recipe = str(CHECKOUT / "tests/data/a10g-draft.toml")
    built = build(recipe, tmp_path, "--engine", engine, "--base", containers.BASE)
    wheel, _ = against_its_plan(built)
    assert wheel["floor"]["driver"] == "580.65.06"
    there = bare(engine, built, smollm2, tmp_path)
    said = well(there.run("python3", "-c", ASK, "/model.gguf", QUESTION))
    assert LINE in said
    assert ANSWER in said


@pytest.mark.by_hand  # nvcc 12.4 has no quick mode: half an hour
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
    there = bare(engine, built, smollm2, tmp_path)
    backend = read_binary(there.site / "llama_cpp/lib/libggml-cuda.so")
    assert set(backend.needed) >= {"libcudart.so.12", "libcublas.so.12"}
    said = well(there.run("python3", "-c", ASK, "/model.gguf", QUESTION))
    assert LINE in said
    assert ANSWER in said
