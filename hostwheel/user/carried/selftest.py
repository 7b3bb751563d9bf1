"""Does what was installed answer? Each program in a process of its own, from an empty folder."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hostwheel.errors import Refused

IMPORT = """\
import sys
sys.path.insert(0, sys.argv[1])
import llama_cpp
print(llama_cpp.__version__)
"""
COMPLETE = """\
import sys
sys.path.insert(0, sys.argv[1])
import llama_cpp
model = llama_cpp.Llama(model_path=sys.argv[2], n_ctx=64, n_gpu_layers=-1, verbose=False)
answer = model("Hello", max_tokens=1, temperature=0)
assert answer["usage"]["completion_tokens"] == 1, answer
print(answer["choices"][0]["text"])
"""


def self_test(python: Path, site: Path, models: Sequence[Path], through: Sequence[str]) -> None:
    """Refused for a program that fails. `through` is put before each command line."""
    start = [*through, str(python), "-I", "-c"]
    ask("import llama_cpp", [*start, IMPORT, str(site)], site)
    server = site / "llama_cpp" / "lib" / "llama-server"
    ask("llama-server --version", [*through, str(server), "--version"], site)
    for model in models[:1]:
        ask(f"a completion by {model.name}", [*start, COMPLETE, str(site), str(model)], site)


def ask(what: str, argv: Sequence[str], temporary: Path) -> None:
    with tempfile.TemporaryDirectory(
        dir=temporary
    ) as folder:  # a dying emulator leaves a core file in it
        try:
            done = subprocess.run(
                argv,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            raise Refused(f"self-test: {what}: {error}; nothing was installed") from None
    if done.returncode != 0:
        said = "\n    ".join((done.stdout + done.stderr).strip().splitlines()[-8:])
        how = f"failed ({ending(done.returncode)}); nothing was installed"
        raise Refused(f"self-test: {what} {how}\n    {said}")
    sys.stderr.write(done.stderr if what.startswith("import") else "")  # "running on the CPU"
    print(f"self-test: {what}: {(done.stdout or done.stderr).strip()!r}")


def ending(code: int) -> str:
    if code == -signal.SIGILL:
        return "an illegal instruction: this CPU lacks what it was compiled for"
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
