"""A stand-in build and bundles of it, made once a session. Tests name it in `pytest_plugins`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bundles import (
    CUDA,
    OTHER_PYTHONS,
    WEIRD,
    build,
    bundled,
    cuda_wheel,
    gguf,
    index,
    our_wheel,
    unpacked,
)
from tests.served import files_below, serving


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return index(tmp_path_factory.mktemp("index") / "files")


@pytest.fixture
def settings(packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The only packages are ours, and those that a test puts into tmp_path/more."""
    (tmp_path / "more").mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", f"{packages} {tmp_path / 'more'}")
    for name in ("UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX", "UV_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in of our wheel."""
    return our_wheel(tmp_path_factory.mktemp("standin"))


@pytest.fixture
def out(standin: Path, tmp_path: Path) -> Path:
    return build(tmp_path / "out" / "cpu-avx2", standin)


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """tmp_path over HTTP."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving(files_below(tmp_path)) as address:
        yield address


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with out/, and the bundles of it: mine.zip with a model and cuda.zip, pruned."""
    folder = tmp_path_factory.mktemp("bundles")
    packages = index(folder / "index")
    out = build(folder / "out" / "cpu-avx2", our_wheel(folder / "ours"))
    gpu = build(folder / "out" / "a10g", cuda_wheel(folder / "cuda", packages), cuda=CUDA)
    (folder / "theirs.txt").write_text("standin-tool\n")
    theirs = ("-r", folder / "theirs.txt")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(packages))
        model = gguf(folder / "tiny model.gguf")
        assert bundled(out, "--gguf", model, *theirs, "-o", folder / "mine.zip") == 0
        assert bundled(gpu, "--prune", "-o", folder / "cuda.zip") == 0
        for python in OTHER_PYTHONS:
            assert bundled(out, "--python", python, "-o", folder / f"{python}.zip") == 0
    return folder


@pytest.fixture
def bundle(made: Path, tmp_path: Path) -> Path:
    """mine.zip, unpacked."""
    return unpacked(made / "mine.zip", tmp_path / WEIRD / "bundle")
