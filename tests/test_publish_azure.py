"""Publishing to Azure's storage, by hand: Azurite, Microsoft's own emulator, takes 360 MB of npm.

pytest -m by_hand tests/test_publish_azure.py
"""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from hostwheel.publish.bucket import check_create_only
from hostwheel.publish.evidence import Evidence
from hostwheel.publish.fsck import fsck
from hostwheel.publish.repair import repair
from hostwheel.publish.store import open_bucket
from tests.published import put_up
from tests.stores import free_port, running
from tests.test_publish_servers import PUBLISHERS, race

pytest_plugins = ["tests.publish_fixtures"]

pytestmark = [pytest.mark.by_hand, pytest.mark.network, pytest.mark.timeout(900)]
AZURITE = "azurite@3.37.0"
# The account of every emulator, which Microsoft documents; its key is no secret.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
MAKE = """
import sys
from azure.storage.blob import ContainerClient
ContainerClient.from_container_url(sys.argv[1], sys.argv[2]).create_container()
"""


@pytest.fixture(scope="module")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an emulator that has the container `wheels`."""
    folder = tmp_path_factory.mktemp("azurite")
    subprocess.run(("npm", "install", "--silent", "--prefix", folder, AZURITE), check=True)
    port = free_port()
    # Without the check of versions, as it says itself where a client is newer than it.
    server = (
        *(f"{folder}/node_modules/.bin/azurite-blob", "--inMemoryPersistence", "--silent"),
        *("--skipApiVersionCheck", "--blobPort", str(port)),
    )
    with running(server, port):
        address = f"http://127.0.0.1:{port}"
        uv = (
            sys.executable,
            "-m",
            "uv",
            "run",
            "--no-project",
            "--with=azure-storage-blob==12.26.0",
        )
        subprocess.run((*uv, "python", "-c", MAKE, f"{address}/{ACCOUNT}/wheels", KEY), check=True)
        yield address


@pytest.fixture
def account(azurite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a user of object_store sets it."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
    monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", azurite)


@pytest.mark.usefixtures("account")
def test_a_build_is_published_looked_at_and_mended(evidence: Evidence) -> None:
    bucket = open_bucket("az://wheels/llama")
    check_create_only(bucket)
    done = put_up(evidence, bucket)
    assert done.catalog.generation == 1
    assert fsck(bucket).faults == ()
    assert put_up(evidence, bucket).changed == ()
    bucket.delete("simple/index.html")
    assert [each.key for each in fsck(bucket).faults if each.kind == "missing"] == [
        "simple/index.html"
    ]
    assert repair(bucket, fsck(bucket)).faults == ()


@pytest.mark.usefixtures("account")
def test_sixteen_at_once_lose_nothing() -> None:
    race([open_bucket("az://wheels/race")] * PUBLISHERS)
