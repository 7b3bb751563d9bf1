"""cpu-any: every CPU variant of ggml, the best one loaded, and only from the package's folder."""

import shutil
import subprocess
from pathlib import Path

import pytest

from hostwheel.facts import isa
from smoke.recorded import ANSWER, QUESTION
from tests.answers import ASK, COMPLETE, COMPLETION
from tests.builds import Built, Installed

pytestmark = [pytest.mark.build, pytest.mark.timeout(3600)]

LOADED = """
import llama_cpp, re
maps = open("/proc/self/maps").read()
print(*sorted(set(re.findall(r"libggml-cpu-[a-z0-9]+", maps))))
"""

# Announces itself when anybody maps it.
INTRUDER = """
#include <stdio.h>
__attribute__((constructor)) static void loaded(void) { fclose(fopen("intruder-was-here", "w")); }
"""


def libraries(installed: Installed) -> Path:
    return next(installed.prefix.glob("lib/python3*/site-packages/llama_cpp/lib"))


@pytest.fixture
def intruder(cpu_any_installed: Installed, tmp_path: Path) -> Path:
    """A folder with a library of the name that ggml looks for, which must stay unmapped."""
    source = tmp_path / "intruder.c"
    source.write_text(INTRUDER)
    for name in ("libggml-blas-evil.so", "libggml-cpu-evil.so", "libggml-cuda.so"):
        argv = ("gcc", "-shared", "-fPIC", "-o", tmp_path / name, source)
        subprocess.run(argv, check=True)
    return tmp_path


def test_every_variant_is_in_the_wheel(cpu_any: Built, cpu_any_installed: Installed) -> None:
    found = {path.name for path in libraries(cpu_any_installed).glob("libggml-cpu*")}
    assert found == {f"libggml-cpu-{tag}.so" for tag in isa.VARIANTS}
    assert cpu_any.evidence["plan"]["label"] == "cpu.any"


def test_it_answers_as_recorded(cpu_any_installed: Installed, smollm2: Path) -> None:
    done = cpu_any_installed.run("python", "-c", ASK, smollm2, QUESTION)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ANSWER


@pytest.mark.parametrize(
    ("cpu", "variant"),
    [
        ("Westmere", "libggml-cpu-sse42"),
        ("SandyBridge", "libggml-cpu-sandybridge"),
        ("EPYC-Rome", "libggml-cpu-haswell"),
        ("EPYC-Rome,-fma", "libggml-cpu-ivybridge"),
    ],
)
def test_each_cpu_gets_the_best_variant_that_it_can_run(
    cpu_any_installed: Installed, emulator: str, cpu: str, variant: str
) -> None:
    done = cpu_any_installed.run("python", "-c", LOADED, wrap=(emulator, "-cpu", cpu))
    assert done.stdout.split() == [variant], done.stderr


def test_on_an_old_cpu_it_answers(
    cpu_any_installed: Installed, emulator: str, smollm2: Path
) -> None:
    wrap = (emulator, "-cpu", "Westmere")
    done = cpu_any_installed.run("python", "-c", COMPLETE, smollm2, wrap=wrap, timeout=900)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip() == COMPLETION


def test_nothing_is_loaded_from_the_current_folder(
    cpu_any_installed: Installed, intruder: Path
) -> None:
    """C17"""
    python = cpu_any_installed.prefix / "bin" / "python"
    tool = libraries(cpu_any_installed) / "llama-bench"
    for argv in ((python, "-c", "import llama_cpp"), (tool, "--list-devices")):
        done = subprocess.run(argv, cwd=intruder, env={}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert not (intruder / "intruder-was-here").exists()


def test_without_a_variant_the_import_says_why(
    cpu_any_installed: Installed, tmp_path: Path
) -> None:
    """C18"""
    site = libraries(cpu_any_installed).parents[1]
    copy = Path(shutil.copytree(site, tmp_path / "site"))
    for library in (copy / "llama_cpp" / "lib").glob("libggml-cpu-*.so"):
        library.unlink()
    argv = (cpu_any_installed.prefix / "bin" / "python", "-c", "import llama_cpp")
    env = {"PYTHONPATH": str(copy)}
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 1
    assert "has no CPU backend that runs here" in done.stderr
    assert f"{copy}/llama_cpp/lib" in done.stderr
