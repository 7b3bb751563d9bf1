"""llama-server: how it ends, as part of the wheel; and that the archive's is the same."""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from smoke.installed import Artifact, Installed, unpack
from smoke.recorded import BEGINNING, COMPLETION
from smoke.serving import ENDLESS, Server, serve, until, well
from smoke.spoiled import lend_cuda

TIMES = 20  # a signal handler that takes locks waits for itself in one of ten


@dataclass(frozen=True, kw_only=True, slots=True)
class Unpacked:
    """The archive as a machine without Python has it."""

    top: Path
    cwd: Path

    def start(
        self,
        *argv: str | Path,
        wrap: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        log: Path | None = None,
    ) -> "subprocess.Popen[str]":
        command = [*wrap, str(self.top / "bin" / argv[0]), *map(str, argv[1:])]
        with (log or Path("/dev/null")).open("w") as sink:
            return subprocess.Popen(
                command, cwd=self.cwd, env=env or {}, stdout=sink, stderr=sink, text=True
            )


def test_sigterm_when_idle(server: Callable[..., Server], tiny: Callable[[str], Path]) -> None:
    running = server(tiny("Q8_0"))
    assert running.processes() == [running.process.pid]
    assert running.stop() == 0
    assert running.processes() == []


def test_sigterm_during_generation_again_and_again(
    server: Callable[..., Server], tiny: Callable[[str], Path]
) -> None:
    """Whatever the main thread is at when the signal comes."""
    for _ in range(TIMES):
        stop_while_generating(server(tiny("Q8_0"), "-c", "2048"), stream=True)


@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "waiting"])
def test_sigterm_during_generation(
    server: Callable[..., Server], tiny: Callable[[str], Path], stream: bool
) -> None:
    """It ends soon although clients wait, and tells them so, or hangs up."""
    stop_while_generating(server(tiny("Q8_0"), "-c", "2048"), stream)


def stop_while_generating(running: Server, stream: bool) -> None:
    with ThreadPoolExecutor(3) as clients:
        ask = partial(cut_off, running, {**ENDLESS, "stream": stream})
        asked = [clients.submit(ask) for _ in range(3)]
        until(lambda: running.busy() == 3)
        assert running.stop() == 0
        assert running.processes() == []
        assert all(each.result(timeout=10) for each in asked)


def cut_off(server: Server, body: Mapping[str, Any]) -> bool:
    """Whether no answer came that a client takes for a whole one."""
    try:
        reply = server.ask("/completion", body)
    except (OSError, HTTPException):
        return True
    return reply.status == 503 or ('"stop":true' not in reply.text and bool(reply.text))


def test_half_a_model_ends_it_with_a_word(
    installed: Installed, tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    whole = tiny("Q8_0").read_bytes()
    half = tmp_path / "half.gguf"
    half.write_bytes(whole[: len(whole) // 2])
    done = installed.run("llama-server", "-m", half, "--port", "0", "--offline")
    assert done.returncode == 1
    assert "exiting due to model loading error" in done.stdout + done.stderr


def test_the_archive_answers_as_the_wheel_does(
    artifact: Artifact, installed: Installed, smollm2: Path, tmp_path: Path
) -> None:
    unpack(artifact.archive, tmp_path)
    unpacked = Unpacked(top=tmp_path / artifact.archive.name.removesuffix(".tar.gz"), cwd=tmp_path)
    lend_cuda(installed.package, unpacked.top / "lib")
    begun = {"prompt": BEGINNING, "temperature": 0, "n_predict": 3}
    with serve(unpacked, smollm2, "-c", "512", log=tmp_path / "server.log") as server:
        assert well(server.ask("/health")) == {"status": "ok"}
        assert well(server.ask("/completion", begun))["content"] == COMPLETION
