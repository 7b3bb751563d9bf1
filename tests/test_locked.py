import base64
import errno
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import pytest

from hostwheel.build.folders import writing
from hostwheel.build.locked import explained, install_locked, locked_versions, pip_environment
from hostwheel.errors import BadInput, MachineLacks, StepFailed

LOCKS = Path(__file__).parents[1] / "recipes" / "locks"


def make_wheel(folder: Path, name: str, version: str, files: Mapping[str, str]) -> str:
    """Write a pure wheel and return its line for a lock file."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    members = {**files, f"{info}/METADATA": metadata, f"{info}/WHEEL": tags}
    record = [f"{member},{record_hash(text)},{len(text)}" for member, text in members.items()]
    members[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""])
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for member, text in members.items():
            entry = zipfile.ZipInfo(member)
            entry.external_attr = (0o100755 if "/bin/" in member else 0o100644) << 16
            wheel.writestr(entry, text)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    return f"{name}=={version} --hash=sha256:{sha256}\n"


def record_hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that is pip's only source in this test."""
    for name in tuple(os.environ):
        if name.startswith("PIP_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    return tmp_path / "wheels"


@pytest.fixture
def lock(tmp_path: Path, wheels: Path) -> Path:
    path = tmp_path / "lock.txt"
    one = make_wheel(wheels, "hw_one", "1.0", {"hw_one/__init__.py": "x = 1\n"})
    two = make_wheel(wheels, "hw_two", "2.0", {"hw_two/bin/tool": "#!/bin/sh\n"})
    path.write_text("# what it is\n" + one + two)
    return path


def state(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_locked_wheels_are_installed_once(lock: Path, tmp_path: Path) -> None:
    target = tmp_path / "t" / "tools"
    install_locked(lock, target)
    assert (target / "hw_one" / "__init__.py").read_text() == "x = 1\n"
    assert os.access(target / "hw_two" / "bin" / "tool", os.X_OK)
    before = state(target)
    install_locked(lock, target)
    assert state(target) == before
    assert [path.name for path in target.parent.iterdir()] == ["tools"]


@pytest.mark.parametrize("what", ["missing", "resized", "lock", "stamp", "empty stamp", "python"])
def test_what_is_not_intact_is_made_anew(
    what: str, lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "tools"
    install_locked(lock, target)
    (target / "left-over").write_text("")
    match what:
        case "missing":
            (target / "hw_one" / "__init__.py").unlink()
        case "resized":
            (target / "hw_one" / "__init__.py").write_text("")
        case "lock":
            lock.write_text(lock.read_text() + "# one more\n")
        case "stamp":
            (target / "installed.json").write_text("no JSON")
        case "empty stamp":
            stamp = json.loads((target / "installed.json").read_text())
            (target / "installed.json").write_text(json.dumps({**stamp, "files": {}}))
        case _:
            python = tmp_path / "python"
            python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
            python.chmod(0o755)
            monkeypatch.setattr(sys, "executable", str(python))
    install_locked(lock, target)
    assert (target / "hw_one" / "__init__.py").read_text() == "x = 1\n"
    assert not (target / "left-over").exists()


def test_the_users_pip_settings_do_not_break_it(
    lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    constraint = tmp_path / "constraint.txt"
    constraint.write_text("hw_one==9.9\n")
    config = tmp_path / "pip.conf"
    config.write_text(
        f"[global]\nrequire-virtualenv = true\nconstraint = {constraint}\n"
        f"[install]\nuser = true\nprefix = {tmp_path}/p\nroot = {tmp_path}/r\n"
        f"target = {tmp_path}/t\nno-binary = :all:\nquiet = 3\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    for name, value in {
        "PIP_TARGET": str(tmp_path / "t"),
        "PIP_USER": "1",
        "PIP_PREFIX": str(tmp_path / "p"),
        "PIP_ROOT": str(tmp_path / "r"),
        "PIP_REQUIRE_VIRTUALENV": "1",
        "PIP_CONSTRAINT": str(constraint),
        "PIP_NO_BINARY": ":all:",
        "PIP_PLATFORM": "win_amd64",
        "PIP_PYTHON_VERSION": "3.5",
        "PIP_DRY_RUN": "1",
        "PIP_REQUIREMENT": str(tmp_path / "none.txt"),
        "PIP_QUIET": "3",
    }.items():
        monkeypatch.setenv(name, value)
    install_locked(lock, tmp_path / "tools")
    assert (tmp_path / "tools" / "hw_one" / "__init__.py").is_file()
    assert not any((tmp_path / name).exists() for name in "tpr")


def test_where_wheels_come_from_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = {"PIP_INDEX_URL": "https://i", "SSL_CERT_FILE": "/ca", "PIP_TARGET": "/t", "A": "b"}
    passed = pip_environment(theirs)
    assert {name: passed.get(name) for name in theirs} == {**theirs, "PIP_TARGET": None}


@pytest.mark.parametrize("edit", ["wrong", "none"])
def test_a_wheel_without_its_pinned_hash_is_refused(edit: str, lock: Path, tmp_path: Path) -> None:
    text = lock.read_text()
    head, _, hashed = text.partition(" --hash=sha256:")
    wrong = f"{head} --hash=sha256:{'0' * 64}{hashed[64:]}"
    lock.write_text(wrong if edit == "wrong" else head + hashed[64:])
    with pytest.raises(BadInput, match="not the pinned one, or has no hash"):
        install_locked(lock, tmp_path / "tools")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "lock.txt",
        "tools.pip.log",
        "wheels",
    ]


def test_a_failure_leaves_what_was_there(lock: Path, wheels: Path, tmp_path: Path) -> None:
    install_locked(lock, tmp_path / "tools")
    before = state(tmp_path / "tools")
    lock.write_text("hw_three==1.0 --hash=sha256:" + "0" * 64 + "\n")
    with pytest.raises(MachineLacks, match=r"no wheel of(.|\n)*hw_three"):
        install_locked(lock, tmp_path / "tools")
    assert state(tmp_path / "tools") == before


def test_no_network_is_said_with_pips_words(
    lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    # Without retries pip does not say why it found nothing.
    for retries, why in (("1", "could not download"), ("0", "could not be reached")):
        monkeypatch.setenv("PIP_RETRIES", retries)
        with pytest.raises(MachineLacks, match=rf"{why}(.|\n)*PIP_INDEX_URL(.|\n)*ERROR:"):
            install_locked(lock, tmp_path / "tools")


@pytest.mark.parametrize(
    ("said", "kind", "why"),
    [
        ("OSError: [Errno 28] No space left on device\n", MachineLacks, "no room"),
        ("/usr/bin/python3: No module named pip\n", MachineLacks, "has no pip"),
        ("ERROR: something new\n", StepFailed, "pip failed"),
    ],
)
def test_other_failures_say_who_has_to_act(said: str, kind: type[Exception], why: str) -> None:
    error = explained(Path("lock.txt"), said, StepFailed("pip failed"))
    assert type(error) is kind
    assert why in str(error)


def test_a_missing_lock_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"none\.txt"):
        install_locked(tmp_path / "none.txt", tmp_path / "tools")


@pytest.mark.parametrize("name", ["cuda-13.0", "build-tools"])
def test_every_line_of_our_locks_is_pinned_with_a_hash(name: str) -> None:
    text = (LOCKS / f"{name}.txt").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert text.startswith("# ")
    assert f"-o /tmp/{name}.all {name}.in" in text
    assert len(lines) == len(locked_versions(LOCKS / f"{name}.txt"))
    assert all("==" in line and " --hash=sha256:" in line for line in lines)


@pytest.mark.network
@pytest.mark.parametrize("name", ["cuda-13.0", "build-tools"])
def test_our_locks_resolve_at_the_index(name: str) -> None:
    """With the dependencies: a package that a lock file forgot has no hash and is refused."""
    argv = (
        *(sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"),
        *("--require-hashes", "--only-binary=:all:", "-r", str(LOCKS / f"{name}.txt")),
    )
    done = subprocess.run(argv, capture_output=True, text=True, env=pip_environment(os.environ))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up_with_pips_log_is_named(
    error: int, lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> NoReturn:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr("hostwheel.build.locked.live", full)
    with pytest.raises(MachineLacks, match=f"the disk of {tmp_path} is full"):
        install_locked(lock, tmp_path / "tools")


def test_a_closed_pipe_is_no_fault_of_the_disk(tmp_path: Path) -> None:
    with pytest.raises(BrokenPipeError), writing(tmp_path):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")
