"""install.py of a bundle, on a machine without network. What is installed is a stand-in."""

import ast
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from packaging.pylock import Pylock

from hostwheel.errors import BadInput, HostwheelError, MachineLacks, Refused
from hostwheel.smoke.emulate import emulated
from hostwheel.smoke.pythons import other_pythons
from hostwheel.user.carried import hostcheck, place, selftest
from tests.bundles import (
    OTHER_PYTHONS,
    POISON,
    PYTHON,
    VERSION,
    build,
    bundled,
    cuda_wheel,
    files_below,
    gguf,
    index,
    install,
    our_wheel,
    recorded,
    run,
    unpacked,
)
from tests.plans import ROOT, need

CARRIED = ROOT / "hostwheel" / "user" / "carried"
WEIRD = "Übung mit Leer zeichen"
CUDA = {"release": "13.0", "architecture": "86", "driver": "580.65.06"}
UV = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
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
        yield folder


@pytest.fixture
def bundle(made: Path, tmp_path: Path) -> Path:
    """mine.zip, unpacked."""
    return unpacked(made / "mine.zip", tmp_path / WEIRD / "bundle")


def left(folder: Path) -> list[str]:
    """What is in a folder, hidden or not."""
    return sorted(path.name for path in folder.iterdir())


def refused(done: subprocess.CompletedProcess[str], code: int, words: str, folder: Path) -> None:
    """One sentence, its status, and nothing installed in `folder`."""
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stderr.startswith("install.py: ")
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert left(folder) == ["bundle"]


# Installed and used


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
    assert record_problems(venv) == []
    assert left(bundle.parent) == ["bundle", "my venv"]
    assert [*files_below(bundle)] == before
    assert not any(".installing" in text for text in texts(venv))


def record_problems(venv: Path) -> list[str]:
    """Files that differ from RECORD, scripts among them."""
    (site,) = venv.glob("lib/python*/site-packages")
    found = []
    for record in site.glob("*.dist-info/RECORD"):
        for line in record.read_text().splitlines():
            name, digest, _ = line.rsplit(",", 2)
            if digest and digest != recorded((site / name).read_bytes()):
                found.append(name)
    return found


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
    [*CARRIED.glob("*.py"), *(ROOT / "hostwheel" / n for n in ("errors.py", "facts/cpuid.py"))],
    ids=lambda file: file.stem,
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
    text = (CARRIED / "install.py").read_text()
    found = {type(node).__name__ for node in ast.walk(ast.parse(text))}
    assert not found & {"JoinedStr", "AnnAssign", "NamedExpr", "AsyncFunctionDef"}
    assert "->" not in text.replace("# type: () -> int", "")
    assert text.isascii()


# Refused


DAMAGED = ("wheels/llama*", "wheels/standin_words*", "models/*", "tools/*", "pylock.toml")


@pytest.mark.parametrize("pattern", [*DAMAGED, "bundle.json", "requirements.txt"])
def test_a_flipped_byte(pattern: str, bundle: Path) -> None:
    (path,) = bundle.glob(pattern)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    done = install(bundle, "--venv", bundle.parent / "venv")
    refused(done, 2, f"{path} is not what was bundled", bundle.parent)


@pytest.mark.parametrize("pattern", [*DAMAGED, "SHA256SUMS", "run-server.sh"])
def test_a_missing_part(pattern: str, bundle: Path) -> None:
    (path,) = bundle.glob(pattern)
    path.unlink()
    done = install(bundle, "--target", bundle.parent / "site")
    refused(done, 2, f"{path} is missing", bundle.parent)


def test_a_damaged_list_of_sums(bundle: Path) -> None:
    text = (bundle / "SHA256SUMS").read_text()
    (bundle / "SHA256SUMS").write_text(text[: len(text) // 2])
    done = install(bundle, "--check")
    assert done.returncode == 2
    (bundle / "SHA256SUMS").write_bytes(b"\xff\xfe")
    refused(install(bundle, "--check"), 2, "SHA256SUMS cannot be read", bundle.parent)


def test_a_wrong_python(made: Path, tmp_path: Path) -> None:
    bundle = unpacked(made / "3.13.zip", tmp_path / "bundle")
    done = install(bundle, "--venv", tmp_path / "venv")
    words = f"this bundle is for CPython 3.13, and this is CPython {PYTHON}."
    refused(done, 2, words, tmp_path)
    assert f"hostwheel bundle --python {PYTHON}" in done.stderr


def test_a19_a_host_that_lacks_avx2(bundle: Path, emulator: str) -> None:
    argv = [sys.executable, str(bundle / "install.py"), "--venv", str(bundle.parent / "venv")]
    refused(run(emulated(argv, "Nehalem")), 3, "it lacks avx2 fma", bundle.parent)
    masked = run(emulated([*argv[:2], "--check"], "EPYC-Rome,-fma"))
    refused(masked, 3, "it lacks fma.", bundle.parent)


def test_on_the_targets_emulated_cpu(bundle: Path, emulator: str) -> None:
    """install.py and each program that it tests, wrapped; pip's work is the same on every CPU."""
    through = " ".join((emulator, *emulated(["true"], "EPYC-Rome")[1:3]))
    argv = [sys.executable, str(bundle / "install.py"), "--venv", str(bundle.parent / "venv")]
    done = run(emulated([*argv, "--through", through], "EPYC-Rome"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "a completion" in done.stdout


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        ({"glibc": "2.99"}, MachineLacks, r"needs glibc 2\.99 or newer, this system has 2"),
        ({"glibcxx": "3.4.99"}, MachineLacks, r"GLIBCXX_3\.4\.99, this system's ends at GLIBCXX_3"),
        ({"features": ["avx2", "no_such"]}, MachineLacks, "it lacks no_such"),
        ({"python": "3.7"}, BadInput, "for CPython 3.7"),
    ],
)
def test_d4_what_a_host_lacks(
    said: Mapping[str, object], error: type[HostwheelError], words: str
) -> None:
    fits = {
        "python": PYTHON,
        "version": VERSION,
        "features": [],
        "glibc": "2.17",
        "glibcxx": "3.4.19",
    }
    hostcheck.check_host(fits)
    with pytest.raises(error, match=words):
        hostcheck.check_host({**fits, **said})


def test_another_libc_and_no_libstdcxx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostcheck, "glibc", lambda: None)
    with pytest.raises(MachineLacks, match="another libc"):
        hostcheck.check_glibc("2.17")
    monkeypatch.setattr(hostcheck, "STDLIB", "libnowhere.so.6")
    with pytest.raises(MachineLacks, match=r"libnowhere\.so\.6 is not on this system"):
        hostcheck.check_glibcxx("3.4.19")


@pytest.mark.parametrize(("size", "words"), [("8k", "MB free"), ("300k", "the disk is full")])
def test_a_full_disk(size: str, words: str, bundle: Path) -> None:
    """Seen before, by the unpacked size; or met on the way."""
    small = bundle.parent / "small"
    small.mkdir()
    script = f'mount -t tmpfs -o size={size} none "$1"; "${{@:2}}"; code=$?; ls -A "$1"; exit $code'
    argv = (sys.executable, bundle / "install.py", "--venv", small / "venv")
    done = run(["unshare", "-rnm", "bash", "-c", script, "bash", small, *argv])
    assert done.returncode == 3, done.stdout + done.stderr
    assert words in done.stderr
    assert "nothing was installed" in done.stderr
    assert done.stdout == ""


def test_a_failed_self_test_leaves_what_was_there(bundle: Path) -> None:
    venv = bundle.parent / "venv"
    fails = ("--with", "uv", "--through", "false")
    refused(install(bundle, "--venv", venv, *fails, PATH=UV), 1, "self-test", bundle.parent)
    assert install(bundle, "--venv", venv, "--with", "uv", PATH=UV).returncode == 0
    (venv / "mine").touch()
    assert install(bundle, "--venv", venv, *fails, PATH=UV).returncode == 1
    assert (venv / "mine").exists()
    assert install(bundle, "--venv", venv, "--with", "uv", PATH=UV).returncode == 0
    assert not (venv / "mine").exists()
    assert left(bundle.parent) == ["bundle", "venv"]


def test_a_crash_in_the_self_test_is_named(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="an illegal instruction: this CPU lacks"):
        selftest.ask("x", ("bash", "-c", "kill -ILL $$"), tmp_path)
    with pytest.raises(Refused, match="killed by SIGSEGV"):
        selftest.ask("x", ("bash", "-c", "kill -SEGV $$"), tmp_path)


def test_a_folder_that_is_not_ours_is_left_alone(bundle: Path) -> None:
    theirs = bundle.parent / "theirs"
    theirs.mkdir()
    (theirs / "file").touch()
    for option in ("--venv", "--target"):
        done = install(bundle, option, theirs)
        assert done.returncode == 2
        assert "is there, and not from a bundle" in done.stderr
    assert left(theirs) == ["file"]
    (theirs / "file").unlink()
    done = install(bundle, "--target", theirs, "--with", "uv", PATH=UV)
    assert done.returncode == 0  # an empty one is as good as none


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_stopped_half_way(number: signal.Signals, bundle: Path, tmp_path: Path) -> None:
    """In the self-test, when everything but the rename is done."""
    slow = tmp_path / "slow"
    slow.write_text(f"#!/bin/sh\ntouch {tmp_path}/there\nexec sleep 30\n")
    slow.chmod(0o755)
    argv = [sys.executable, str(bundle / "install.py"), "--target", str(bundle.parent / "site")]
    env = {**os.environ, **POISON, "PATH": UV}
    argv += ["--with", "uv"]
    child = subprocess.Popen([*argv, "--through", str(slow)], env=env, stderr=subprocess.PIPE)
    while not (tmp_path / "there").exists():
        assert child.poll() is None
        time.sleep(0.02)
    child.send_signal(number)
    said = child.communicate()[1].decode()
    if number == signal.SIGKILL:
        assert not (bundle.parent / "site").exists()
    else:
        assert (child.returncode, said) == (
            128 + number,
            "install.py: stopped; nothing was installed\n",
        )
        assert left(bundle.parent) == ["bundle"]
    done = install(bundle, "--target", bundle.parent / "site", "--with", "uv", PATH=UV)
    assert done.returncode == 0, done.stderr
    assert left(bundle.parent) == ["bundle", "site"]


def test_a_rename_that_fails_puts_the_earlier_one_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / place.MARKER).write_text("earlier")
    (tmp_path / "fresh").mkdir()
    rename = Path.rename

    def failing(self: Path, to: Path) -> Path:
        if self.name == "fresh":
            raise OSError(28, "No space left on device")
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="No space"):
        place.put(tmp_path / "fresh", tmp_path / "site")
    assert (tmp_path / "site" / place.MARKER).read_text() == "earlier"


def test_no_uv(bundle: Path) -> None:
    done = install(bundle, "--venv", bundle.parent / "v", "--with", "uv", PATH="/usr/bin:/bin")
    refused(done, 3, "there is no uv on PATH", bundle.parent)


def test_the_sums_are_those_of_sha256sum(bundle: Path) -> None:
    need("sha256sum", "coreutils")
    done = subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=bundle)
    assert done.returncode == 0


def test_the_lock_file_is_a_lock_file(bundle: Path) -> None:
    Pylock.from_dict(tomllib.loads((bundle / "pylock.toml").read_text())).validate()
