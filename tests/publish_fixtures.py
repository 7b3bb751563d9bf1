"""A published build in memory. Tests name this in `pytest_plugins`."""

import pytest

from hostwheel.publish.evidence import Evidence, read_evidence
from hostwheel.publish.publish import publish
from tests.proved import proved
from tests.published import no_progress
from tests.stores import Memory


@pytest.fixture(scope="session")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return read_evidence(proved(tmp_path_factory.mktemp("proved")))


@pytest.fixture(scope="session")
def first(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    bucket = Memory()
    publish(read_evidence(proved(tmp_path_factory.mktemp("first"))), bucket, no_progress)
    return bucket


@pytest.fixture
def bucket(first: Memory) -> Memory:
    """A published build: its wheel, archive and variant copy."""
    copied = Memory()
    copied.held.update(first.held)
    copied.now = first.now
    return copied
