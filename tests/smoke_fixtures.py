"""A build to smoke-test, with a small suite in the place of the real one. Tests name it in
`pytest_plugins`."""

import json
from pathlib import Path

import pytest

from hostwheel.artifact.smoked import GROUPS
from hostwheel.smoke import machine, smoke
from hostwheel.smoke.smoke import Request
from tests.plans import need, plan_for
from tests.smokes import dist, sha256

CONFTEST = """
def pytest_addoption(parser):
    for name in ("wheel", "archive", "plan", "source", "model"):
        parser.addoption(f"--{name}")
    parser.addoption("--gpu", action="store_true")
"""
WELL = """
import hashlib, json, pytest
from pathlib import Path

@pytest.mark.parametrize("name", ["wheel", "archive"])
def test_given_is_what_was_built(pytestconfig, name):
    given = Path(pytestconfig.getoption(name))
    built = json.loads(Path(pytestconfig.getoption("plan")).read_text())
    named = {each["name"]: each["sha256"] for each in built["artifacts"]}
    assert named[given.name] == hashlib.sha256(given.read_bytes()).hexdigest()
"""


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A suite that passes."""
    folder = tmp_path / "suite" / "smoke"
    folder.mkdir(parents=True)
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_well.py").write_text(WELL)
    for name in GROUPS:
        (folder / f"test_{name}.py").write_text("def test_it():\n    pass\n")
    monkeypatch.setattr(smoke, "suite", lambda: folder)
    return folder


@pytest.fixture
def left_by_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a build of cpu-avx2 left, on a machine that can run it and has all that is needed."""
    need("qemu-x86_64", "apt-get install qemu-user")
    monkeypatch.setattr(smoke, "missing", lambda features: ())
    monkeypatch.setattr(machine, "other_pythons", lambda: {"3.13": Path("/python")})
    plan, folder = plan_for("cpu-avx2").json(), tmp_path / "out" / "cpu-avx2"
    (folder / "dist").mkdir(parents=True)
    for name in (plan["wheel"], plan["archive"]):
        (folder / "dist" / name).write_text(f"this is {name}")
    artifacts = [{"name": path.name, "sha256": sha256(path)} for path in dist(folder)]
    said = {"plan": plan, "plan_hash": plan["hash"], "artifacts": artifacts}
    (folder / "build.json").write_text(json.dumps(said))
    return folder


@pytest.fixture
def request_all(left_by_build: Path, suite: Path, tmp_path: Path) -> Request:
    (tmp_path / "llama.cpp" / "models").mkdir(parents=True)
    model = tmp_path / "smollm2.gguf"
    model.touch()
    return Request(out=left_by_build, model=model, source=tmp_path / "llama.cpp")
