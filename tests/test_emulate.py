import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostwheel.errors import BadInput, MachineLacks, Refused
from hostwheel.smoke import emulate
from hostwheel.smoke.emulate import emulated, find_emulator, run_probe, self_test

MODELS = """
    EPYC EPYC-Rome EPYC-Milan Nehalem Westmere SandyBridge IvyBridge Haswell Haswell-v4
    Broadwell Broadwell-v4 Skylake-Client Skylake-Server Cascadelake-Server Icelake-Server max
"""
FMA = bytes.fromhex("c4e27db8c031ff") + emulate.EXIT  # vfmadd231ps ymm0, ymm0, ymm0; xor edi, edi

# What a right emulator gives for each probe.
RIGHT = {
    (emulate.AVX2, "EPYC-Rome"): 0,
    (emulate.AVX2, "Nehalem"): -4,
    (emulate.AVX512, "EPYC-Rome"): -4,
    (emulate.LZCNT, "EPYC-Rome"): 28,
    (emulate.LZCNT, "Nehalem"): 3,
}


@pytest.fixture
def core_files() -> Iterator[None]:
    """Allow core files as far as this machine does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


@pytest.fixture
def qemu() -> None:
    if shutil.which(emulate.EMULATOR):
        return
    if os.environ.get("CI") == "true":
        pytest.fail("qemu-user is not installed on the CI machine")
    pytest.skip("needs qemu-user: apt-get install qemu-user")


@pytest.fixture
def impostor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A qemu-x86_64 at the front of PATH, for the test to write."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    path = tmp_path / emulate.EMULATOR
    path.write_text("")
    path.chmod(0o755)
    return path


@pytest.mark.usefixtures("qemu")
@pytest.mark.parametrize("cpu", MODELS.split())
def test_no_model_prints_warnings(cpu: str) -> None:
    done = subprocess.run(emulated(("echo", "hello"), cpu), capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello\n", "")


@pytest.mark.usefixtures("qemu")
def test_qemu_by_itself_warns() -> None:
    argv = (find_emulator(), "-cpu", "EPYC-Rome", shutil.which("true") or "")
    assert "doesn't support" in subprocess.run(argv, capture_output=True, text=True).stderr


@pytest.mark.usefixtures("qemu", "core_files")
def test_the_emulator_proves_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    self_test()
    assert list(tmp_path.iterdir()) == []  # no core files


@pytest.mark.usefixtures("qemu")
def test_caller_masks_a_feature() -> None:
    assert run_probe(FMA, "EPYC-Rome") == 0
    assert run_probe(FMA, "EPYC-Rome,-fma") == -emulate.SIGILL


@pytest.mark.usefixtures("qemu")
@pytest.mark.parametrize("cpu", ["Pentium-Rome", "EPYC-Rome,-nonsense"])
def test_unknown_model_or_feature_is_refused(cpu: str) -> None:
    with pytest.raises(BadInput, match=f"'{cpu}'.*-cpu help"):
        emulated(("true",), cpu)


@pytest.mark.usefixtures("qemu")
def test_program_is_resolved_and_arguments_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "tool"
    program.write_bytes(emulate.executable(emulate.AVX2))
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    argv = emulated(("./tool", "-cpu", "x y"), "Nehalem")
    assert argv == (find_emulator(), "-cpu", "Nehalem", str(program), "-cpu", "x y")
    with pytest.raises(MachineLacks, match="'no-such-tool'"):
        emulated(("no-such-tool",), "Nehalem")


def test_missing_emulator_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineLacks, match="apt-get install qemu-user"):
        find_emulator()


def test_emulator_that_runs_natively_is_refused(impostor: Path) -> None:
    impostor.write_text('#!/bin/sh\nshift 2\nexec "$@"\n')
    with pytest.raises(Refused, match="does not emulate AVX"):
        self_test()


def test_emulator_that_runs_nothing_is_refused(impostor: Path) -> None:
    impostor.write_text("#!/bin/sh\nkill -ILL $$\n")
    with pytest.raises(Refused, match="does not emulate AVX2 on EPYC-Rome: exit status -4"):
        self_test()


@pytest.mark.parametrize("wrong", RIGHT)
def test_each_probe_counts(monkeypatch: pytest.MonkeyPatch, wrong: tuple[bytes, str]) -> None:
    answers = RIGHT | {wrong: 99}
    monkeypatch.setattr(emulate, "run_probe", lambda code, cpu: answers[code, cpu])
    monkeypatch.setattr(emulate, "find_emulator", lambda: "/usr/bin/qemu-x86_64")
    with pytest.raises(Refused, match=f"on {wrong[1]}: exit status 99, expected {RIGHT[wrong]}"):
        self_test()
