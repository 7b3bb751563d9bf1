"""The order of an installation: look at machine and bundle, install beside, test, then rename."""

from __future__ import annotations

import argparse
import shlex
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from hostwheel.errors import HostwheelError
from hostwheel.user.carried.hostcheck import check_host
from hostwheel.user.carried.packages import Packages, add_models, check_room
from hostwheel.user.carried.place import MARKER, check_place, staged
from hostwheel.user.carried.selftest import self_test
from hostwheel.user.carried.sums import SAID, check_files, read_said

BUNDLE = Path(__file__).resolve().parents[3]
STOPPED = 128


def main(given: Sequence[str] | None = None) -> int:
    """The exit status: 0 well, 1 a check refused, 2 wrong input, 3 the machine lacks something."""
    asked = parser().parse_args(given)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stopped)
    try:
        said = read_said(BUNDLE)
        check_host(said)
        check_files(BUNDLE)
        if asked.check:
            print("this machine fits, and every file of the bundle is as it was made")
        else:
            install(asked, said)
    except HostwheelError as error:
        print(f"install.py: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt as stop:
        print("install.py: stopped; nothing was installed", file=sys.stderr)
        return STOPPED + int(stop.args[0] if stop.args else signal.SIGINT)
    return 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="install.py", description="Install this bundle. No network is needed, nor root."
    )
    where = made.add_mutually_exclusive_group(required=True)
    where.add_argument("--venv", type=Path, metavar="DIR", help="a new virtual environment")
    where.add_argument("--target", type=Path, metavar="DIR", help="a new folder for PYTHONPATH")
    where.add_argument("--check", action="store_true", help="only look at machine and bundle")
    made.add_argument(
        "--with",
        dest="installer",
        choices=("pip", "uv"),
        default="pip",
        help="pip, which the bundle carries (default), or the uv on PATH",
    )
    made.add_argument(
        "--through",
        type=command,
        metavar="COMMAND",
        default=[],
        help="put before each program of the self-test, for example 'srun --gpus 1'",
    )
    return made


def command(text: str) -> list[str]:
    """The words of a command line; the program by its path, because programs run elsewhere."""
    program, *options = shlex.split(text)
    found = shutil.which(program)
    if found is None:
        raise argparse.ArgumentTypeError(f"the program {program!r} is not on this machine")
    return [str(Path(found).absolute()), *options]


def stopped(number: int, frame: FrameType | None) -> None:
    """End as after Ctrl-C: what is half-installed is removed on the way out."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt(number)


def install(asked: argparse.Namespace, said: dict[str, Any]) -> None:
    destination = (asked.venv or asked.target).absolute()
    check_place(destination)
    check_room(destination, BUNDLE, said)
    with staged(destination) as stage:
        packages = Packages(BUNDLE, stage, destination, asked.installer)
        python, site = packages.in_venv() if asked.venv else packages.in_folder()
        models = add_models(BUNDLE, said, stage)
        self_test(python, site, models, asked.through)
        (stage / MARKER).write_text((BUNDLE / SAID).read_text(encoding="utf-8"), encoding="utf-8")
    print(summary(asked, said, destination))


def summary(asked: argparse.Namespace, said: dict[str, Any], destination: Path) -> str:
    python = destination / "bin" / "python" if asked.venv else Path(sys.executable)
    use = shlex.quote(str(python))
    if asked.target:
        use = f"PYTHONPATH={shlex.quote(str(destination))} {use}"
    server = shlex.quote(str(destination / "run-server.sh"))
    return (
        f"llama-cpp-python {said['version']} is installed and tested\n"
        f"  python:  {use}\n  server:  {server} --port 8080"
    )
