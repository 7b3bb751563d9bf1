"""hostwheel-capture.pyz: on other CPUs, on other Pythons, with nothing but the standard library."""

import ast
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostwheel.__main__ import main
from hostwheel.errors import BadInput, MachineLacks
from hostwheel.facts.isa import PREREQUISITES
from hostwheel.plan.recipe import read_host
from hostwheel.smoke.emulate import EMULATOR, emulated
from hostwheel.smoke.pythons import other_pythons
from hostwheel.user import capture_pyz
from hostwheel.user.capture_host import host_of, this_machine
from tests.bundles import left
from tests.plans import need
from tests.users import read_back


@pytest.fixture(scope="module")
def pyz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("one file") / "hostwheel-capture.pyz"
    assert main(["capture", "--pyz", str(path)]) == 0
    return path


PYTHONS = {"{}.{}".format(*sys.version_info[:2]): Path(sys.executable), **other_pythons()}


@pytest.mark.parametrize("python", PYTHONS)
def test_the_one_file_says_the_same_on_every_python(python: str, pyz: Path, tmp_path: Path) -> None:
    argv = (str(PYTHONS[python]), "-I", "-S", "-W", "error", str(pyz))
    done = subprocess.run(argv, capture_output=True, cwd=tmp_path, env={"LC_ALL": "C"}, check=True)
    assert done.stderr == b""
    assert f"# Python {python}." in done.stdout.decode()
    assert read_back(done.stdout.decode(), tmp_path) == host_of(this_machine())


def test_python_3_8_is_among_them() -> None:
    if "3.8" not in PYTHONS:
        need("python3.8", "uv python install 3.8")
    assert PYTHONS.keys() >= {"3.8"}


@pytest.mark.parametrize(
    ("cpu", "has", "lacks", "reached"),
    [
        ("Westmere", "sse4_2 popcnt", "avx bmi1 movbe", "x86_64_v2"),
        ("SandyBridge", "avx sse4_2", "avx2 fma f16c", "x86_64_v2"),
        ("Haswell", "avx2 fma f16c bmi2", "avx512f sse4a", "x86_64_v3"),
        ("EPYC-Rome", "avx2 fma f16c bmi2 sse4a", "avx512f", "x86_64_v3"),
        ("EPYC-Rome,-fma", "avx2 f16c", "fma", "x86_64_v2"),
        ("EPYC-Rome,-avx", "bmi2 sse4_2", "avx avx2 fma f16c", "x86_64_v2"),
    ],
)
def test_the_one_file_on_another_cpu(
    cpu: str, has: str, lacks: str, reached: str, pyz: Path, tmp_path: Path
) -> None:
    """A19; /proc/cpuinfo would show the real CPU there"""
    need(EMULATOR, "apt-get install qemu-user")
    argv = emulated((sys.executable, "-I", "-S", str(pyz)), cpu)
    text = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    file = tmp_path / "host.toml"
    file.write_text(text)
    found = read_host(file)
    assert set(has.split()) <= set(found.cpu.features)
    assert set(lacks.split()).isdisjoint(found.cpu.features)
    assert found.cpu.microarchitecture == reached
    assert found.glibcxx == this_machine().glibcxx


def test_the_one_file_has_the_same_bytes_each_time(pyz: Path) -> None:
    assert pyz.read_bytes() == capture_pyz.pyz()
    assert pyz.stat().st_mode & 0o111
    with zipfile.ZipFile(pyz) as archive:
        assert archive.testzip() is None


def test_the_one_file_brings_everything_that_it_imports() -> None:
    """Its own modules, and else only the standard library."""
    texts = capture_pyz.members()
    for name, text in texts.items():
        for module in imported(text):
            inside = module.replace(".", "/")
            if module.split(".")[0] == "hostwheel":
                assert {f"{inside}.py", f"{inside}/__init__.py"} & texts.keys(), (name, module)
            else:
                assert module.split(".")[0] in sys.stdlib_module_names, (name, module)


def imported(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_the_one_file_knows_the_same_prerequisites() -> None:
    names: dict[str, object] = {}
    exec(capture_pyz.members()["hostwheel/facts/isa.py"], names)
    assert names["PREREQUISITES"] == dict(PREREQUISITES)


def test_an_old_python_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 7, 16))
    with pytest.raises(SystemExit, match=r"needs Python 3.8 or newer"):
        exec(capture_pyz.MAIN, {})


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(MachineLacks, match=r"cannot write .*nowhere/x.pyz: No such file"):
        capture_pyz.write_pyz(tmp_path / "nowhere" / "x.pyz")
    assert left(tmp_path) == []


def test_what_is_no_regular_file_stays_what_it_is(tmp_path: Path) -> None:
    """A rename onto a device, such as /dev/null, would put a file in its place for everybody."""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("folder", "pipe", "link", "loop"):
        with pytest.raises(BadInput, match=f"{name} is there, and no regular file: give another"):
            capture_pyz.write_pyz(tmp_path / name)
    assert left(tmp_path) == ["folder", "link", "loop", "pipe"]
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "link").is_symlink()


def test_the_file_that_a_link_names_is_written(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there/x.pyz")
    for _ in range(2):  # a name that was free, and one that was not
        capture_pyz.write_pyz(tmp_path / "link")
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "there" / "x.pyz").read_bytes() == capture_pyz.pyz()


def test_a_link_laid_where_it_is_written_beside_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / ".x.pyz.new").symlink_to("precious")
    capture_pyz.write_pyz(tmp_path / "x.pyz")
    assert (tmp_path / "precious").read_text() == "mine"
    assert left(tmp_path) == [".x.pyz.new", "precious", "x.pyz"]


def test_a_disk_that_is_full_is_told(pyz: Path, tmp_path: Path) -> None:
    """Not one of Python's tracebacks: a size of 0 stands in for the disk."""
    script = 'ulimit -f 0; exec "$1" -I -S "$2" > "$3"'
    argv = ("bash", "-c", script, "bash", sys.executable, pyz, tmp_path / "host.toml")
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 3
    assert done.stderr == "hostwheel: cannot write: File too large; make room\n"
