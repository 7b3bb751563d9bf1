"""The user's own requirements, and the user's own index."""

import shutil
from pathlib import Path

import pytest

from hostwheel.user.bundle_pack import FOLDER
from tests.bundles import PYTHON, bundled, left, names

pytestmark = pytest.mark.usefixtures("settings")
pytest_plugins = ["tests.bundle_fixtures"]


def test_d9_the_users_requirements_are_resolved_together_with_ours(
    out: Path, tmp_path: Path
) -> None:
    submission = tmp_path / "my submission"
    submission.mkdir()
    (submission / "requirements.txt").write_text("standin-tool\nstandin-words<2\n")
    argv = (out, "--into", submission, "--requirements", submission / "requirements.txt")
    assert bundled(*argv) == 0
    assert (submission / "requirements.txt").read_text() == "standin-tool\nstandin-words<2\n"
    assert left(submission) == [FOLDER, "requirements.txt"]
    text = (submission / FOLDER / "requirements.txt").read_text()
    pinned = [line.split(" ")[0] for line in text.splitlines() if "==" in line]
    assert pinned == [
        "llama-cpp-python==0.3.36+cpu.avx2",
        "standin-tool==1.0",
        "standin-words==1.0",
    ]
    before = (submission / FOLDER).stat().st_ino
    assert bundled(*argv) == 0
    assert (submission / FOLDER).stat().st_ino != before
    assert left(tmp_path) == ["more", "my submission", "out"]


def test_requirements_that_contradict_ours(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "requirements.txt").write_text("llama-cpp-python==0.2.0\n")
    argv = ("--requirements", tmp_path / "requirements.txt", "-o", tmp_path / "s.zip")
    assert bundled(out, *argv) == 2
    said = capsys.readouterr().err
    assert "llama-cpp-python" in said
    assert "==0.2.0" in said


def test_what_is_no_bundle_is_not_replaced(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    precious = tmp_path / "submission" / FOLDER / "precious"
    precious.mkdir(parents=True)
    assert bundled(out, "--into", tmp_path / "submission") == 2
    assert "no bundle: move it away" in capsys.readouterr().err
    assert precious.is_dir()
    assert bundled(out, "--into", tmp_path / "nowhere") == 2
    assert "is no folder" in capsys.readouterr().err


def serve_index(folder: Path, packages: Path) -> None:
    """Files as a simple index has them."""
    for path in packages.glob("*.whl"):
        page = folder / path.name.split("-")[0].replace("_", "-")
        page.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, page / path.name)


@pytest.mark.parametrize("name", ["PIP_INDEX_URL", "UV_INDEX_URL", "PIP_CONFIG_FILE"])
def test_the_users_index_is_asked(
    name: str,
    out: Path,
    packages: Path,
    served: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    serve_index(tmp_path / "simple", packages)
    for setting in ("PIP_NO_INDEX", "PIP_FIND_LINKS"):
        monkeypatch.delenv(setting)
    config = tmp_path / "pip.conf"
    config.write_text(f"[global]\nindex-url = {served}/simple\n")
    if name != "PIP_CONFIG_FILE":
        monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv(name, str(config) if name == "PIP_CONFIG_FILE" else f"{served}/simple")
    assert bundled(out, "-o", tmp_path / "s.zip") == 0
    assert any("standin_words" in each for each in names(tmp_path / "s.zip"))


def test_an_index_that_is_not_there(
    out: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    assert bundled(out, "-o", tmp_path / "s.zip") == 3
    assert f"could not ask the index for CPython {PYTHON}" in capsys.readouterr().err
    assert not (tmp_path / "s.zip").exists()
