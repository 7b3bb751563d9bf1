"""What install.py refuses, in one sentence, with nothing installed."""

import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from packaging.pylock import Pylock

from hostwheel.errors import BadInput, HostwheelError, MachineLacks, Refused
from hostwheel.facts import libc
from hostwheel.smoke.emulate import emulated
from hostwheel.user.carried import hostcheck, place, selftest
from tests.bundles import POISON, PYTHON, UV, VERSION, install, left, refused, run, unpacked
from tests.plans import need

pytest_plugins = ["tests.bundle_fixtures"]


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
    (bundle / "SHA256SUMS").write_text(text.replace("  ", " ", 1))
    words = "SHA256SUMS has a line that is none of a sum, line 1: copy or unpack"
    refused(install(bundle, "--check"), 2, words, bundle.parent)
    (bundle / "SHA256SUMS").write_bytes(b"\xff\xfe")
    refused(install(bundle, "--check"), 2, "SHA256SUMS cannot be read", bundle.parent)


@pytest.mark.parametrize("name", ["requirements.txt", "wheels/", "models/", "install.py"])
def test_a_line_that_is_gone_from_the_list_of_sums(name: str, bundle: Path) -> None:
    lines = (bundle / "SHA256SUMS").read_text().splitlines(keepends=True)
    gone = next(line for line in lines if line[66:].startswith(name))
    (bundle / "SHA256SUMS").write_text("".join(line for line in lines if line != gone))
    words = f"SHA256SUMS has no line for {gone[66:-1]}: copy or unpack"
    refused(install(bundle, "--check"), 2, words, bundle.parent)


def test_what_people_put_beside_the_files_of_a_bundle_is_theirs(bundle: Path) -> None:
    (bundle / "main.py").touch()
    (bundle / "hostwheel" / "__pycache__").mkdir()
    (bundle / "hostwheel" / "__pycache__" / "errors.cpython-311.pyc").touch()
    assert install(bundle, "--check").returncode == 0


def test_stopped_while_it_reads_its_own_files(bundle: Path) -> None:
    module = bundle / "hostwheel" / "errors.py"
    module.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    done = install(bundle, "--check")
    said = "install.py: stopped; nothing was installed\n"
    assert (done.returncode, done.stderr) == (130, said)


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
    monkeypatch.setattr(libc, "glibc", lambda: None)
    with pytest.raises(MachineLacks, match="another libc"):
        hostcheck.check_glibc("2.17")
    monkeypatch.setattr(libc, "glibcxx", lambda: None)
    with pytest.raises(MachineLacks, match=r"libstdc\+\+\.so\.6 is not on this system"):
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
    for number in (1, 2):
        done = install(bundle, "--venv", venv, "--with", "uv", PATH=UV)
        assert done.returncode == 0
        assert f"the earlier {venv} is now {venv}.old-{number}: remove it when" in done.stdout
    assert not (venv / "mine").exists()
    assert (venv.with_name("venv.old-1") / "mine").exists()
    assert left(bundle.parent) == ["bundle", "venv", "venv.old-1", "venv.old-2"]


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
