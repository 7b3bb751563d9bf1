"""Run a command: echo it so that it can be pasted, then stream its output or capture it."""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hostwheel.errors import MachineLacks, StepFailed

TAIL_LINES = 40


def echo(argv: Sequence[str]) -> None:
    print("+ " + shlex.join(argv), file=sys.stderr, flush=True)


def capture(
    argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> str:
    """Run quietly and return stdout; raise StepFailed with all output when it fails."""
    try:
        done = subprocess.run(
            argv, env=env, cwd=cwd, capture_output=True, text=True, errors="replace"
        )
    except FileNotFoundError as error:
        raise not_found(argv[0], error) from None
    if done.returncode != 0:
        raise StepFailed(failure(argv, done.returncode, done.stdout + done.stderr))
    return done.stdout


def live(
    argv: Sequence[str],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    show: Callable[[str], None] = lambda line: print(line, end="", flush=True),
) -> None:
    """Run with every line of output handed to `show` and written to `log`.

    stdout and stderr are one stream. The child is ended with us (Ctrl-C included).
    """
    echo(argv)
    tail: list[str] = []
    with log.open("a", encoding="utf-8", errors="replace") as sink:
        sink.write("+ " + shlex.join(argv) + "\n")
        code = stream(argv, env=env, cwd=cwd, each=lambda line: keep(line, sink.write, tail, show))
    if code != 0:
        raise StepFailed(failure(argv, code, "".join(tail)) + f"\n(whole log: {log})")


def keep(
    line: str,
    write: Callable[[str], object],
    tail: list[str],
    show: Callable[[str], None],
) -> None:
    write(line)
    tail.append(line)
    del tail[:-TAIL_LINES]
    show(line)


def stream(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None,
    cwd: Path | None,
    each: Callable[[str], None],
) -> int:
    """Start `argv` in a process group of its own, hand on its lines, return its exit status."""
    try:
        child = subprocess.Popen(
            argv,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise not_found(argv[0], error) from None
    assert child.stdout is not None
    try:
        with child.stdout:
            for line in child.stdout:
                each(line)
        return child.wait()
    except BaseException:
        os.killpg(child.pid, 15)
        child.wait()
        raise


def not_found(program: str, error: FileNotFoundError) -> Exception:
    if error.filename not in (None, program):
        return error
    return MachineLacks(f"the program {program!r} is not on this machine")


def failure(argv: Sequence[str], code: int, output: str) -> str:
    status = f"killed by signal {-code}" if code < 0 else f"exit status {code}"
    text = output.strip("\n").replace("\n", "\n    ")
    return f"{Path(argv[0]).name} failed ({status}): {shlex.join(argv)}\n    {text}"
