"""Run a command: echo it so that it can be pasted, then stream its output or capture it."""

import os
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from hostwheel.errors import MachineLacks, StepFailed

KEEPER = Path(__file__).with_name("keeper.py")


def echo(argv: Sequence[str]) -> None:
    print("+ " + shlex.join(argv), file=sys.stderr, flush=True)


def say(line: str) -> None:
    """Tell a person what is done and why, beside a command's own output."""
    print(f"hostwheel: {line}", file=sys.stderr, flush=True)


def capture(
    argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> str:
    """Run quietly and return stdout; raise StepFailed with all output when it fails."""
    try:
        done = subprocess.run(
            argv, env=env, cwd=cwd, capture_output=True, text=True, errors="replace"
        )
    except FileNotFoundError as error:
        if error.filename != argv[0]:  # `cwd`
            raise
        raise not_found(argv[0]) from None
    except OSError as error:
        if error.filename != argv[0]:
            raise
        raise MachineLacks(
            f"the program {argv[0]!r} cannot be run ({error.strerror}): install it anew"
        ) from None
    if done.returncode != 0:
        raise StepFailed(
            failure(argv, done.returncode) + "\n" + indented(done.stdout + done.stderr)
        )
    return done.stdout


def show_line(line: str) -> None:
    print(line, end="", file=sys.stderr, flush=True)


def live(
    argv: Sequence[str],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    show: Callable[[str], None] = show_line,
) -> None:
    """Run with every line of output written to `log` and handed to `show`.

    stdout and stderr are one stream. What was started ends with us, however we end. The text of
    StepFailed has no output in it: `show` had it all.
    """
    echo(argv)
    with log.open("a", buffering=1, encoding="utf-8", errors="replace") as sink:
        sink.write("+ " + shlex.join(argv) + "\n")

        def each(line: str) -> None:
            sink.write(line)
            show(line)

        code = stream(argv, env=env, cwd=cwd, each=each)
    if code != 0:
        raise StepFailed(f"{failure(argv, code)}\n(whole log: {log})")


def stream(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None,
    cwd: Path | None,
    each: Callable[[str], None],
) -> int:
    """Start `argv`, hand on its lines, return its exit status."""
    child = start(argv, env=env, cwd=cwd, stdout=subprocess.PIPE)
    assert child.stdout is not None
    try:
        with child.stdout:
            for line in child.stdout:
                each(line)
        return child.wait()
    except BaseException:
        child.terminate()
        child.wait()
        raise


def start(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None,
    cwd: Path | None = None,
    stdout: int | IO[bytes],
) -> "subprocess.Popen[str]":
    """Start `argv` under keeper.py, which ends it and all that it started when we end.

    From the main thread only: for the kernel it is the thread whose end is ours.
    """
    if shutil.which(argv[0], path=(os.environ if env is None else env).get("PATH")) is None:
        raise not_found(argv[0])
    return subprocess.Popen(
        (sys.executable, "-I", "-S", str(KEEPER), str(os.getpid()), *argv),
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        close_fds=False,  # the keeper holds the lock of the build too, until all has ended
    )


def forget_closed_terminal() -> None:
    """Let what is still printed go nowhere: writing to a terminal that was closed is an error."""
    for descriptor in (1, 2):
        if stat.S_ISCHR(os.fstat(descriptor).st_mode) and not os.isatty(descriptor):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, descriptor)
            os.close(nowhere)


def not_found(program: str) -> MachineLacks:
    return MachineLacks(f"the program {program!r} is not on this machine")


def failure(argv: Sequence[str], code: int) -> str:
    status = f"killed by signal {-code}" if code < 0 else f"exit status {code}"
    return f"{Path(argv[0]).name} failed ({status}): {shlex.join(argv)}"


def indented(text: str) -> str:
    return "    " + text.strip("\n").replace("\n", "\n    ")
