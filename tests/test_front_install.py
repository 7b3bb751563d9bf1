"""The commands on the page, as a person would paste them: real pip and real uv, beside PyPI."""

import os
import shlex
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from hostwheel.publish.readback import clean
from hostwheel.run import capture
from tests.audits import pack
from tests.buckets import Objects, Server, entry_of, objects, serving, tiny_wheel

VERSION = "0.3.36+cpu.avx2"
NAMES = ("pip", "uv", "requirements.txt, by hash")


class Commands(HTMLParser):
    """Name → command, of all builds of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("p", "pre"):
            self.inside = dict(attrs).get("class") in ("name", "command")
            self.texts += [""] if self.inside else []

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag not in ("p", "pre")

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.texts[-1] += data


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A wheel that needs what only PyPI has, and a newer one that nobody asked for."""
    folder = tmp_path_factory.mktemp("bucket")
    wheels = (
        tiny_wheel(folder, VERSION, requires="a-dependency"),
        tiny_wheel(folder, "0.3.37+cpu.sse42"),
    )
    with serving(objects({each: entry_of(each, "cpu-avx2") for each in wheels})) as server:
        yield server


@pytest.fixture(scope="module")
def pypi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """It has the dependency, and a llama-cpp-python of the same version."""
    folder = tmp_path_factory.mktemp("pypi")
    info = "a_dependency-1.0.dist-info"
    texts = {
        "a_dependency.py": "",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: a-dependency\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    wheel = folder / "a_dependency-1.0-py3-none-any.whl"
    pack(wheel, {name: text.encode() for name, text in texts.items()})
    wheels = (wheel, tiny_wheel(folder, "0.3.36"))
    held: Objects = {f"files/{each.name}": (each.read_bytes(), "") for each in wheels}
    for each in wheels:
        project = each.name.partition("-")[0].replace("_", "-")
        link = f'<a href="/files/{each.name}">{each.name}</a>'
        held[f"simple/{project}/"] = (link.encode(), "text/html")
    with serving(held) as server:
        yield server


def commands(server: Server) -> dict[str, str]:
    """Those of the wanted build, with the server's address."""
    _, _, tables = server.held["index.html"][0].decode().partition('<section id="builds">')
    texts = Commands(tables).texts
    pairs = zip(texts[::2], texts[1::2], strict=True)
    wanted = VERSION.replace("+", "%2B")
    return {
        name: line.replace("URL/", server.url)
        for name, line in pairs
        if VERSION in line or wanted in line
    }


def test_every_command_names_the_build(published: Server) -> None:
    assert tuple(commands(published)) == NAMES


@pytest.mark.parametrize("tool", ["pip", "uv"])
@pytest.mark.parametrize("by_hash", [False, True])
def test_a_command_installs_this_build_and_its_dependencies(
    tool: str, by_hash: bool, published: Server, pypi: Server, tmp_path: Path
) -> None:
    """E3: not PyPI's of the same version, not the bucket's newest."""
    said = commands(published)
    (tmp_path / "requirements.txt").write_text(said[NAMES[2]])
    line = {"pip": "pip install -r", "uv": "uv pip install -r"}[tool]
    argv = shlex.split(f"{line} {tmp_path}/requirements.txt" if by_hash else said[tool])
    site = ("--target", str(tmp_path / "site"), "--no-cache-dir", "--quiet")
    index = f"{pypi.url}simple/"
    env = clean(os.environ) | {"PIP_INDEX_URL": index, "UV_DEFAULT_INDEX": index}
    more = ("--python", sys.executable, "--no-config") if tool == "uv" else ()
    capture((sys.executable, "-m", *argv, *site, *more), env=env)
    found = {each.name for each in (tmp_path / "site").glob("*.dist-info")}
    assert found == {f"llama_cpp_python-{VERSION}.dist-info", "a_dependency-1.0.dist-info"}
