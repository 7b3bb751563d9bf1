"""On the CPU that the build is for, emulated, and on CPUs that it is not for.

qemu follows no child process: each command line is wrapped, llama-server's too.
"""

import json
import signal
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hostwheel.smoke.emulate import self_test
from smoke import engine
from smoke.apart import TWO_RIGHT_WAYS, apart
from smoke.conftest import NO_MODEL, OnModel
from smoke.installed import Installed
from smoke.serving import Server, serve
from smoke.spoiled import planted_copy

TOKENS = [1, 450, 7483, 310, 3444, 338, 278, 14744, 310, 7379, 322, 278, 4234]
KINDS = ("F16", "Q4_0", "Q8_0", "Q4_K", "Q6_K")
TOKENS_SAID = 6
REFUSED = 3  # exit status of a program on a wrong CPU

# Loads the libraries as they are, without the guard that stands before them.
UNGUARDED = """
import sys, types
guard = sys.modules["llama_cpp.hostwheel"] = types.ModuleType("llama_cpp.hostwheel")
guard.VERSION = ""
sys.argv = sys.argv[1:]
exec(compile(open(sys.argv[0]).read(), sys.argv[0], "exec"))
"""
BACKENDS = """
import llama_cpp
from ctypes import CDLL
from pathlib import Path
print(CDLL(str(Path(llama_cpp.__file__).parent / "lib" / "libggml.so")).ggml_backend_reg_count())
"""


@pytest.fixture(scope="session")
def tasks(tiny: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What engine.py is to compute: the logits after a sentence, for each of KINDS."""
    settings = {"batch": 32, "threads": 2, "kv": "F16", "flash": True}
    listed = [
        {
            "model": str(tiny(kind)),
            "extra": True,
            "tokens": TOKENS,
            "settings": [{"name": kind, **settings}],
        }
        for kind in KINDS
    ]
    file = tmp_path_factory.mktemp("tasks") / "tasks.json"
    file.write_text(json.dumps(listed))
    return file


def last_logits(
    installed: Installed, tasks: Path, out: Path, wrap: Sequence[str] = ()
) -> Mapping[str, Any]:
    """The logits of each kind as the installed wheel computes them."""
    done = installed.run("python", engine.__file__, tasks, out, wrap=wrap)
    assert done.returncode == 0, done.stderr
    with np.load(out) as rows:
        return dict(rows)


def completion(server: Server) -> Sequence[int]:
    """The tokens that the model goes on with."""
    asked = {"prompt": TOKENS, "n_predict": TOKENS_SAID, "temperature": 0, "return_tokens": True}
    tokens: Sequence[int] = server.ask("/completion", asked).json["tokens"]
    return tokens


def program(server: Server) -> str:
    """The name of the file that the server's process really runs."""
    return Path(f"/proc/{server.process.pid}/exe").resolve().name


def older_model(features: Sequence[str]) -> str:
    """A CPU that lacks what the build is compiled with."""
    if not features:
        pytest.skip("this build runs on every x86-64 CPU")
    return "Westmere" if "avx" in features else "Conroe"


@pytest.fixture
def without(emulated_model: str | None, on_model: OnModel) -> OnModel:
    """`without(feature)`: what to put before a command line so that the host's CPU lacks it."""
    if emulated_model is None:
        pytest.skip(NO_MODEL)
    return lambda feature: on_model(f"{emulated_model},-{feature}")


def test_the_emulator_proves_itself(emulated: tuple[str, ...]) -> None:
    """AVX2 passes, AVX-512 dies, and LZCNT gives the value of the model. A16"""
    assert emulated
    self_test()


def test_planted_avx512_is_caught(
    installed: Installed, emulated: tuple[str, ...], tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    """The control: what is run here has to be able to fail. A4, A5, A6, A9, A12, A16"""
    planted = planted_copy(installed.package, tmp_path, "libggml-base.so", "ggml_init")
    argv = ("-m", tiny("Q4_0"), "-p", "1", "-n", "0", "-r", "1", "-t", "1", "--no-warmup")
    well = installed.run("llama-bench", *argv, wrap=emulated)
    assert well.returncode == 0, well.stderr
    done = installed.run(planted / "lib" / "llama-bench", *argv, wrap=emulated)
    assert done.returncode == -signal.SIGILL, f"the gate is broken: {done.returncode} {done.stderr}"


def test_emulated_it_computes_what_it_computes_here(
    installed: Installed,
    emulated: tuple[str, ...],
    plan: Mapping[str, Any],
    tasks: Path,
    tmp_path: Path,
) -> None:
    """To the last bit, but where another way is taken there: without FMA, or another variant."""
    here = last_logits(installed, tasks, tmp_path / "here.npz")
    there = last_logits(installed, tasks, tmp_path / "there.npz", wrap=emulated)
    assert set(here) == set(there) == set(KINDS)
    allowed = 0 if "fma" in plan["features"] else TWO_RIGHT_WAYS
    off = {kind: apart(there[kind], here[kind]) for kind in KINDS}
    assert max(off.values()) <= allowed, off


def test_emulated_llama_server_says_what_it_says_here(
    installed: Installed, emulated: tuple[str, ...], tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    serve_tiny = partial(serve, installed, tiny("Q4_0"), "--ctx-size", "256", "--no-warmup")
    with serve_tiny(log=tmp_path / "here.log") as server:
        here = completion(server)
    with serve_tiny(log=tmp_path / "there.log", wrap=emulated) as server:
        assert program(server) == Path(emulated[0]).name
        there = completion(server)
    assert len(here) == TOKENS_SAID
    assert there == here


def test_the_import_is_refused_on_an_older_cpu(
    installed: Installed, plan: Mapping[str, Any], on_model: OnModel
) -> None:
    """With a sentence, not an illegal instruction. A7, A17"""
    wrap = on_model(older_model(plan["features"]))
    done = installed.run("python", "-c", "import llama_cpp", wrap=wrap)
    assert done.returncode == 1
    assert f"ImportError: llama.cpp {plan['version']} cannot run on this CPU (" in done.stderr
    assert "This CPU, or the virtual machine around it, lacks: " in done.stderr


def test_the_programs_refuse_an_older_cpu(
    installed: Installed, plan: Mapping[str, Any], on_model: OnModel
) -> None:
    wrap = on_model(older_model(plan["features"]))
    for tool in plan["tools"]:
        done = installed.run(tool, "--version", wrap=wrap)
        assert done.returncode == REFUSED, done.stderr
        assert f"llama.cpp {plan['version']} cannot run on this CPU (" in done.stderr


def test_without_the_guard_an_older_cpu_dies(
    installed: Installed,
    plan: Mapping[str, Any],
    on_model: OnModel,
    tasks: Path,
    tmp_path: Path,
) -> None:
    """So the code really uses what its label says. A21"""
    wrap = on_model(older_model(plan["features"]))
    argv = ("python", "-c", UNGUARDED, engine.__file__, tasks, tmp_path / "out.npz")
    done = installed.run(*argv, wrap=wrap)
    assert done.returncode == -signal.SIGILL, done.stderr


def test_a_masked_feature_that_is_compiled_in_is_refused(
    installed: Installed, plan: Mapping[str, Any], without: OnModel
) -> None:
    """A virtual machine masks some; no marketing name says so. A19"""
    if "fma" not in plan["features"]:
        pytest.skip("FMA is not compiled in")
    wrap = without("fma")
    done = installed.run("python", "-c", "import llama_cpp", wrap=wrap)
    assert done.returncode == 1
    assert "lacks: fma.\n" in done.stderr
    assert installed.run("llama-server", "--version", wrap=wrap).returncode == REFUSED


def test_a_masked_feature_that_is_not_compiled_in_does_not_matter(
    installed: Installed, plan: Mapping[str, Any], without: OnModel
) -> None:
    assert "movbe" not in plan["features"]
    wrap = without("movbe")
    done = installed.run("python", "-c", "import llama_cpp", wrap=wrap)
    assert done.returncode == 0, done.stderr
    assert installed.run("llama-server", "--version", wrap=wrap).returncode == 0


def test_python_finds_a_backend_from_any_folder(installed: Installed) -> None:
    """C17, C18"""
    done = installed.run("python", "-c", BACKENDS)
    assert int(done.stdout) >= 1, done.stderr
