"""pip and uv, the present ones and older ones that people have, at a served index."""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from hostwheel.errors import StepFailed
from hostwheel.publish.readback import clean
from hostwheel.run import capture
from tests.buckets import TAG, Objects, Server, entry_of, objects, serving, tiny_wheel

PROJECT = "llama-cpp-python"
WANTED = "0.3.36+cpu.avx2"
WITHDRAWN, NOT_FOR_US = "0.3.37+cpu.avx2", "0.3.38+cpu.avx2"

# Beside ours: Debian 12's pip and Ubuntu 24.04's, and uv as it was in February and October 2025.
OLDER = ("pip==23.0.1", "pip==24.0", "uv==0.5.29", "uv==0.9.5")
TOOLS = ("pip", "uv", *OLDER)
INDEXES = {
    "rest-html": (False, "simple/", PROJECT),
    "rest-json": (False, "cpu-avx2/simple-json/", "llama_cpp_python"),
    "website": (True, "cpu-avx2/simple/", "llama_cpp_python"),
}


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Objects:
    """The wanted wheel, a newer one that was withdrawn, and one for a Python that nobody has."""
    folder = tmp_path_factory.mktemp("index")
    wanted, yanked, later = (
        tiny_wheel(folder, version) for version in (WANTED, WITHDRAWN, NOT_FOR_US)
    )
    return objects(
        {
            wanted: entry_of(wanted, "cpu-avx2"),
            yanked: entry_of(yanked, "cpu-avx2", yanked="prints <nonsense>"),
            later: entry_of(later, "cpu-avx2", requires_python=">=4"),
        }
    )


@pytest.fixture(scope="module")
def servers(held: Objects) -> Iterator[Mapping[bool, Server]]:
    """As S3's REST endpoint answers, and as website hosting and file servers do."""
    with serving(held) as rest, serving(held, website=True) as website:
        yield {False: rest, True: website}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(tool, marks=pytest.mark.network if "==" in tool else ()) for tool in TOOLS
    ],
)
def tool(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, ...]:
    """How this pip or uv is started."""
    name = str(request.param)
    if "==" not in name:
        return (sys.executable, "-m", name)
    folder = tmp_path_factory.mktemp(name)
    capture(
        (sys.executable, "-m", "uv", "pip", "install", "--no-deps", "--target", str(folder), name)
    )
    return (sys.executable, str(folder / "pip")) if "pip" in name else (str(folder / "bin" / "uv"),)


def install(tool: tuple[str, ...], index: str, folder: Path, *more: str) -> Path:
    """Into a folder; returned."""
    uv = ("pip", "install", "--no-config", "--python", sys.executable, "--default-index")
    pip = ("install", "--disable-pip-version-check", "--index-url")
    start = pip if "pip" in tool[-1] else uv
    argv = (*tool, *start, index, "--no-cache-dir", "--quiet", "--target", str(folder), *more)
    capture(argv, env=clean(os.environ))
    return folder


def version_in(folder: Path) -> str:
    (info,) = folder.glob("llama_cpp_python-*.dist-info")
    return info.stem.partition("-")[2]


@pytest.mark.parametrize("index", INDEXES)
def test_the_right_file_is_installed(
    servers: Mapping[bool, Server], tool: tuple[str, ...], index: str, tmp_path: Path
) -> None:
    """E8, E9, E11: from keys with a slash and from index.html, under both spellings.

    Neither one that was yanked, nor one whose data-requires-python says no.
    """
    website, path, name = INDEXES[index]
    server = servers[website]
    server.asked.clear()
    assert version_in(install(tool, server.url + path, tmp_path, name)) == WANTED
    assert f"/{path}{PROJECT}/" in server.asked
    assert not [path for path in server.asked if NOT_FOR_US.replace("+", "%2B") in path]


def test_metadata_is_read_before_the_wheel(servers: Mapping[bool, Server], tmp_path: Path) -> None:
    """PEP 714, in HTML and JSON: nobody downloads 100 MB to see what they need."""
    for module in ("pip", "uv"):
        for form in ("simple", "simple-json"):
            servers[False].asked.clear()
            tool = (sys.executable, "-m", module)
            install(tool, f"{servers[False].url}{form}/", tmp_path / module / form, PROJECT)
            files = [path for path in servers[False].asked if "/objects/" in path]
            assert [path.rpartition(".")[2] for path in files][:2] == ["metadata", "whl"], files


def test_a_yanked_version_comes_when_it_is_asked_for_and_says_why(
    servers: Mapping[bool, Server], tool: tuple[str, ...], tmp_path: Path
) -> None:
    wanted = f"{PROJECT}=={WITHDRAWN}"
    folder = install(tool, f"{servers[False].url}simple/", tmp_path, wanted)
    assert version_in(folder) == WITHDRAWN


def test_e7_other_bytes_than_the_locked_ones_are_refused(
    held: Objects, tool: tuple[str, ...], tmp_path: Path
) -> None:
    """By hash, since uv 0.9.5 holds nothing else against the hash on the page; 0.13.9 does."""
    (wheel,) = (key for key in held if key.endswith(f"{WANTED}-{TAG}.whl"))
    wanted = tmp_path / "requirements.txt"
    wanted.write_text(f"{PROJECT}=={WANTED} --hash=sha256:{wheel.split('/')[2]}\n")
    by_hash = ("--require-hashes", "--requirement", str(wanted))
    faulty = {**held, wheel: (held[wheel][0] + b"\0", "")}
    with serving(held) as server:
        install(tool, f"{server.url}simple/", tmp_path / "right", *by_hash)
    with serving(faulty) as server, pytest.raises(StepFailed, match=r"(?i)hash"):
        install(tool, f"{server.url}simple/", tmp_path / "wrong", *by_hash)


def test_e3_a_newer_source_elsewhere_does_not_win(
    servers: Mapping[bool, Server], tmp_path: Path
) -> None:
    """With both indexes a plain name builds PyPI's newest. A label, or ours alone, does not."""
    newer = b'<a href="llama_cpp_python-0.4.0.tar.gz">llama_cpp_python-0.4.0.tar.gz</a>'
    elsewhere: Objects = {f"simple/{PROJECT}/": (newer, "text/html")}
    ours = f"{servers[False].url}simple/"
    pip = (sys.executable, "-m", "pip")
    with serving(elsewhere) as pypi:
        both = (ours, tmp_path, "--extra-index-url", f"{pypi.url}simple/")
        with pytest.raises(StepFailed, match=r"llama_cpp_python-0\.4\.0\.tar\.gz"):
            install(pip, *both, PROJECT)
        assert version_in(install(pip, *both, f"{PROJECT}=={WANTED}")) == WANTED
    assert version_in(install(pip, ours, tmp_path / "alone", PROJECT)) == WANTED
