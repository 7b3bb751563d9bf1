"""Where a bundle is written: nothing of the user's, and no device or link, gives way to it."""

import os
from pathlib import Path

import pytest

from hostwheel.user.bundle_pack import FOLDER
from tests.bundles import bundled, gguf, left, names

pytestmark = pytest.mark.usefixtures("settings")
pytest_plugins = ["tests.bundle_fixtures"]


def test_a_pipe_or_device_stays_what_it_is(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link.zip").symlink_to("pipe")
    for name in ("pipe", "link.zip"):
        assert bundled(out, "-o", tmp_path / name) == 2
        assert f"{name} is there, and no regular file: give another" in capsys.readouterr().err
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "link.zip").is_symlink()


def test_the_file_that_a_link_names_is_written(out: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link.zip").symlink_to("there/s.zip")
    assert bundled(out, "-o", tmp_path / "link.zip") == 0
    assert (tmp_path / "link.zip").is_symlink()
    assert "SHA256SUMS" in names(tmp_path / "there" / "s.zip")
    assert left(tmp_path / "there") == ["s.zip"]


@pytest.mark.parametrize("name", ["a\nb.gguf", "a\x1b[31m.gguf", "a\u2028b.gguf", "a\\b.gguf"])
def test_a_name_that_a_list_of_sums_cannot_hold(
    name: str, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = gguf(tmp_path / name)
    assert bundled(out, "--gguf", model, "-o", tmp_path / "s.zip") == 2
    assert f"{name!r} has characters" in capsys.readouterr().err
    assert not (tmp_path / "s.zip").exists()


def test_what_was_added_to_an_earlier_bundle_is_not_removed(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bundled(out, "--into", tmp_path) == 0
    mine = tmp_path / FOLDER / "models" / "mine.gguf"
    mine.parent.mkdir()
    mine.touch()
    assert bundled(out, "--into", tmp_path) == 2
    told = f"{FOLDER} holds models/mine.gguf, which is not of the bundle: move it away"
    assert told in capsys.readouterr().err
    mine.unlink()
    cached = tmp_path / FOLDER / "hostwheel" / "__pycache__" / "errors.cpython-311.pyc"
    cached.parent.mkdir()
    cached.touch()
    assert bundled(out, "--into", tmp_path) == 0
