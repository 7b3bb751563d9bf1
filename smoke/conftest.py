"""What the suite is given on the command line, and the fixtures that every file of it uses.

`hostwheel smoke RECIPE` gives it all. By hand: `pytest smoke --wheel … --archive … --plan …`.
"""

import json
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from hostwheel.smoke.emulate import find_emulator, quiet
from hostwheel.smoke.model import install_smollm2
from smoke.installed import Artifact, Installed, fresh_environment, put_hostwheel, uv_install
from smoke.serving import server
from smoke.tinymodel import quantized

OnModel = Callable[[str], tuple[str, ...]]

__all__ = ["server"]  # a fixture of its own file, for all

NO_MODEL = "qemu has no model of this host's CPU"
NO_EMULATOR = "not run here: it needs an emulator, and --no-emulator was given"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("smoke", "the artifact to test")
    group.addoption("--wheel", type=existing, help="the wheel")
    group.addoption("--archive", type=existing, help="the archive made from it")
    group.addoption("--plan", type=existing, help="its build.json")
    group.addoption(
        "--emulate",
        action="append",
        metavar="MODEL",
        help="a CPU model of qemu-user; can be given again; default: that of the plan's host",
    )
    group.addoption("--source", type=existing, help="the folder of llama.cpp's sources")
    group.addoption("--model", type=existing, help="SmolLM2-135M-Instruct Q4_1; else downloaded")
    group.addoption("--gpu", action="store_true", help="a GPU has to be found")
    group.addoption(
        "--no-emulator",
        action="store_true",
        help="leave out what needs qemu-user; no proof, so `hostwheel smoke` never gives it",
    )


def existing(path: str) -> Path:
    """An absolute path, since everything runs from another folder."""
    if not Path(path).exists():
        raise ArgumentTypeError(f"{path} does not exist")
    return Path(path).resolve()


def given(config: pytest.Config, option: str) -> Path:
    value = config.getoption(option)
    if not isinstance(value, Path):
        raise pytest.UsageError(f"{option} is needed: see `pytest {Path(__file__).parent} --help`")
    return value


def planned(config: pytest.Config) -> Mapping[str, Any]:
    plan: Mapping[str, Any] = json.loads(given(config, "--plan").read_text())["plan"]
    return plan


def models(config: pytest.Config) -> Sequence[str | None]:
    """The CPU models to emulate; [None] when qemu has none of this host."""
    asked: Sequence[str] = config.getoption("--emulate") or ()
    return asked or [planned(config)["host"]["cpu"]["emulate"]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "emulated_model" in metafunc.fixturenames:
        found = [model or pytest.param(None, id="no model") for model in models(metafunc.config)]
        metafunc.parametrize("emulated_model", found, scope="session")


@pytest.fixture(scope="session")
def plan(pytestconfig: pytest.Config) -> Mapping[str, Any]:
    """The plan that the artifact was built to, as build.json has it."""
    return planned(pytestconfig)


@pytest.fixture(scope="session")
def artifact(pytestconfig: pytest.Config) -> Artifact:
    return Artifact(wheel=given(pytestconfig, "--wheel"), archive=given(pytestconfig, "--archive"))


@pytest.fixture(scope="session")
def installed(artifact: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """A fresh environment with the wheel, numpy and hostwheel in it."""
    made = fresh_environment(tmp_path_factory.mktemp("installed"))
    uv_install(made, artifact.wheel, "numpy")
    put_hostwheel(made)
    return made


@pytest.fixture(scope="session")
def on_model(pytestconfig: pytest.Config) -> OnModel:
    """`on_model(cpu)`: what to put before a command line so that it runs on that model, quietly."""

    def wrap(model: str) -> tuple[str, ...]:
        if pytestconfig.getoption("--no-emulator"):
            pytest.skip(NO_EMULATOR)
        emulator = find_emulator()
        return (emulator, "-cpu", quiet(emulator, model))

    return wrap


@pytest.fixture(scope="session")
def emulated(emulated_model: str | None, on_model: OnModel) -> tuple[str, ...]:
    """What to put before a command line so that it runs on the host's CPU model."""
    if emulated_model is None:
        pytest.skip(NO_MODEL)
    return on_model(emulated_model)


@pytest.fixture(scope="session")
def smollm2(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SmolLM2-135M-Instruct Q4_1 (98 MB)."""
    if pytestconfig.getoption("--model"):
        return given(pytestconfig, "--model")
    return install_smollm2(tmp_path_factory.mktemp("smollm2"))


@pytest.fixture(scope="session")
def llama_cpp_source(pytestconfig: pytest.Config) -> Path:
    return given(pytestconfig, "--source")


@pytest.fixture(scope="session")
def tiny(
    installed: Installed, llama_cpp_source: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """The suite's own model with every matrix of the type that is asked for, such as "Q4_K"."""
    folder = tmp_path_factory.mktemp("tiny")
    return lambda kind: quantized(installed, llama_cpp_source, folder, kind)
