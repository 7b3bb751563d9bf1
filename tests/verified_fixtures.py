"""A bundle to verify, signed or not. Tests name this in `pytest_plugins`."""

from pathlib import Path

import pytest

from hostwheel.trust.sums import SIGNATURE
from tests.verified import signed_bundle


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return signed_bundle(tmp_path)


@pytest.fixture
def unsigned(bundle: Path) -> Path:
    (bundle / SIGNATURE).unlink()
    return bundle
