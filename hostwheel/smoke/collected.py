"""A plugin of pytest: says which checks there are before any is run."""

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--collected", type=Path, required=True, help="where the ids go, one a line")


def pytest_collection_finish(session: pytest.Session) -> None:
    lines = "".join(f"{item.nodeid}\n" for item in session.items)
    session.config.getoption("--collected").write_text(lines, encoding="utf-8")
