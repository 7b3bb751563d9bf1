"""install.py of a bundle, on a machine without network. What is installed is a stand-in."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from hostwheel.errors import Refused
from hostwheel.smoke.pythons import other_pythons
from hostwheel.user.bundle_programs import CARRIED, OWN, PACKAGE
from hostwheel.user.carried import selftest
from tests.bundles import (
    OTHER_PYTHONS,
    UV,
    VERSION,
    files_below,
    install,
    left,
    recorded,
    run,
    unpacked,
)

pytest_plugins = ["tests.bundle_fixtures"]


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_a_new_environment(installer: str, bundle: Path) -> None:
    venv = bundle.parent / "my venv"
    before = [*files_below(bundle)]
    done = install(bundle, "--venv", venv, "--with", installer, PATH=UV)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "a completion by tiny model.gguf: 'hello from" in done.stdout
    asked = run([venv / "bin" / "python", "-I", "-c", "import llama_cpp as l; print(l.__file__)"])
    assert asked.stdout.startswith(str(venv))
    assert run([venv / "bin" / "tool"]).stdout == "the tool\n"  # its script names this Python
    activated = run(["bash", "-c", f'. "{venv}/bin/activate"; command -v python'])
    assert activated.stdout.strip() == f"{venv}/bin/python"
    (site,) = venv.glob("lib/python*/site-packages")
    assert record_problems(site) == []
    assert left(bundle.parent) == ["bundle", "my venv"]
    assert [*files_below(bundle)] == before
    assert not any(".installing" in text for text in texts(venv))


def record_problems(site: Path) -> list[str]:
    """Files that differ from RECORD, scripts among them."""
    found = []
    for record in site.glob("*.dist-info/RECORD"):
        for line in record.read_text().splitlines():
            name, digest, _ = line.rsplit(",", 2)
            if digest and not is_recorded(site / name, digest):
                found.append(name)
    return found


def is_recorded(file: Path, digest: str) -> bool:
    return file.is_file() and recorded(file.read_bytes()) == digest


def texts(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix != ".pyc":
            yield path.read_bytes().decode(errors="replace")


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_a_target_folder(installer: str, bundle: Path) -> None:
    target = bundle.parent / "site"
    done = install(bundle, "--target", target, "--with", installer, PATH=UV)
    assert done.returncode == 0, done.stdout + done.stderr
    argv = ("env", f"PYTHONPATH={target}", sys.executable, "-c", "import llama_cpp as l;print(l)")
    assert str(target) in run(argv).stdout
    assert (target / "bin" / "tool").is_file()
    assert "bin/tool," in (target / "standin_tool-1.0.dist-info" / "RECORD").read_text()
    assert record_problems(target) == []
    served = run([target / "run-server.sh", "--port", "8081"])
    model = target / "models" / "tiny model.gguf"
    assert served.stdout.splitlines()[1:] == ["<--model>", f"<{model}>", "<--port>", "<8081>"]
    other = run([target / "run-server.sh", "-m", "other.gguf"])
    assert other.stdout.splitlines()[1:] == ["<-m>", "<other.gguf>"]
    assert left(bundle.parent) == ["bundle", "site"]


def test_unpacked_without_modes_and_started_isolated(bundle: Path) -> None:
    """`python -m zipfile -e` keeps no modes; -I and -P leave out the script's folder."""
    for path in bundle.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    target = bundle.parent / "site"
    argv = ("-I", bundle / "install.py", "--target", target, "--with", "uv")
    done = run([sys.executable, *argv], PATH=UV)
    assert done.returncode == 0, done.stderr
    assert run([target / "run-server.sh"]).returncode == 0


def test_the_server_of_a_bundle_that_is_not_installed(bundle: Path) -> None:
    done = run([bundle / "run-server.sh"])
    assert done.returncode == 3
    assert "python install.py --target DIR" in done.stderr


@pytest.mark.parametrize("kind", ["pip", "uv", "pip pylock", "uv pylock", "pip find-links"])
def test_pip_and_uv_install_it_themselves(kind: str, bundle: Path, tmp_path: Path) -> None:
    """As the README of the bundle has it, from anywhere."""
    tool, _, what = kind.partition(" ")
    target = tmp_path / "site"
    uv = ("uv", "pip", "install", "--offline", "--python", sys.executable)
    start = uv if tool == "uv" else ("-m", "pip", "install")
    lists = {
        "": ("--require-hashes", "-r", bundle / "requirements.txt"),
        "pylock": ("-r", bundle / "pylock.toml"),
        "find-links": ("--no-index", "--find-links", bundle / "wheels", "llama-cpp-python"),
    }[what]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    argv = ("unshare", "-rn", sys.executable, *(("-m", *uv) if tool == "uv" else start), *lists)
    done = subprocess.run(
        [*map(str, argv), "--target", str(target)], env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (target / "llama_cpp" / "lib" / "llama-server").is_file()
    assert (target / "standin_words.py").is_file()


def test_c1_c3_a_pruned_cuda_bundle_finds_its_libraries(made: Path, tmp_path: Path) -> None:
    """The stand-in loads its CUDA backend when it is imported, by RUNPATH alone."""
    bundle = unpacked(made / "cuda.zip", tmp_path / "bundle")
    done = install(bundle, "--venv", tmp_path / "venv", LD_LIBRARY_PATH="")
    assert done.returncode == 0, done.stdout + done.stderr
    (lt,) = (tmp_path / "venv").rglob("libcublasLt.so*")
    lt.unlink()
    (site,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    with pytest.raises(Refused, match=r"libcublasLt\.so\.13.*nothing was installed|failed"):
        selftest.self_test(tmp_path / "venv" / "bin" / "python", site, (), ())


def test_a_user_without_root_from_a_bundle_that_is_read_only(bundle: Path) -> None:
    protect(bundle)
    with pytest.raises(subprocess.CalledProcessError):
        run([*without_root(), "touch", bundle / "models" / "x"]).check_returncode()
    site = bundle.parent / "site"
    argv = (sys.executable, bundle / "install.py", "--target", site)
    done = run([*without_root(), *argv], HOME="/nonexistent")
    assert done.returncode == 0, done.stdout + done.stderr
    protect(site)
    use = ("env", f"PYTHONPATH={site}", sys.executable, "-c")
    used = run([*without_root(), *use, "import os, llama_cpp; print(os.getuid())"])
    assert int(used.stdout) != 0, used.stderr
    assert run([*without_root(), site / "run-server.sh"]).returncode == 0


def protect(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222)


def without_root() -> Sequence[str]:
    """In namespaces of its own for network and users: nobody there, without any capability."""
    return ("unshare", "-Un")


@pytest.mark.parametrize("python", sorted({*other_pythons()} & {*OTHER_PYTHONS}))
def test_another_python(python: str, made: Path, tmp_path: Path) -> None:
    """Of those on this machine. 3.8 with uv, because the pip of this test's index is too new."""
    bundle = unpacked(made / f"{python}.zip", tmp_path / "bundle")
    start = (other_pythons()[python], bundle / "install.py", "--venv", tmp_path / "venv")
    done = run([*start, *(("--with", "uv") if python == "3.8" else ())], PATH=UV)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"'{VERSION}'" in done.stdout


@pytest.mark.parametrize(
    "file",
    [*OWN.glob("*.py"), *(PACKAGE / name for name in CARRIED)],
    ids=lambda file: str(file.relative_to(PACKAGE)),
)
def test_what_is_carried_is_python_3_8_and_imports_only_itself(file: Path) -> None:
    tree = ast.parse(file.read_text(), feature_version=(3, 8))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            first, _, rest = (node.module or "").partition(".")
            assert first in sys.stdlib_module_names or first == "hostwheel"
            if first == "hostwheel":
                assert rest in ("errors", "facts") or rest.startswith("user.carried.")
        elif isinstance(node, ast.Import):
            assert {alias.name for alias in node.names} <= sys.stdlib_module_names


def test_python_2_is_told() -> None:
    """It reads install.py as far as the sentence: nothing newer than 2.7 is in it."""
    text = (OWN / "install.py").read_text()
    found = {type(node).__name__ for node in ast.walk(ast.parse(text))}
    assert not found & {"JoinedStr", "AnnAssign", "NamedExpr", "AsyncFunctionDef"}
    assert "->" not in text.replace("# type: () -> int", "")
    assert text.isascii()
