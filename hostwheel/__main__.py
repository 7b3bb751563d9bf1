"""One subcommand per stage; the only place that turns errors into exit codes."""

import argparse
import errno
import io
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pkgutil import resolve_name
from textwrap import fill
from types import FrameType

from hostwheel import __version__
from hostwheel.errors import HostwheelError, MachineLacks
from hostwheel.run import forget_closed_terminal

COMMANDS: Mapping[str, tuple[str, str, str]] = {
    "recipes": (
        "plan.command:add_recipes_arguments",
        "show the table of recipes",
        "hostwheel recipes",
    ),
    "plan": (
        "plan.command:add_plan_arguments",
        "show what would be built, to the last option",
        "hostwheel plan a10g --json",
    ),
    "build": (
        "container.build_command:add_build",
        "build wheel and archive into out/RECIPE",
        "hostwheel build cpu-avx2",
    ),
    "image": (
        "container.build_command:add_image",
        "make the container image that a recipe is built in",
        "hostwheel image a10g --engine docker",
    ),
    "pins": (
        "container.build_command:add_pins",
        "look up the digests of the base images, and write them into docker/images.toml",
        "hostwheel pins",
    ),
    "audit": (
        "audit.command:add_arguments",
        "read a finished wheel, archive or library, and say on which hosts it runs",
        "hostwheel audit some.whl --host aws-g5",
    ),
    "smoke": (
        "smoke.command:add_smoke_arguments",
        "test the built wheel and archive on this machine and on the host's emulated CPU",
        "hostwheel smoke cpu-avx2",
    ),
    "parity": (
        "user.parity_command:add_parity_arguments",
        "compare a GGUF's log-probabilities with those of transformers in float32",
        "hostwheel parity --gguf m.F32.gguf --gguf m.Q8_0.gguf --model folder",
    ),
    "bump": (
        "bump.command:add_bump_arguments",
        "say what a new upstream version changes, and pin it",
        "hostwheel bump 0.3.37",
    ),
    "publish": (
        "publish.command:add_publish_arguments",
        "put a proved build into a bucket that pip and uv read as an index",
        "hostwheel publish out/a10g --to s3://wheels/llama --dry-run",
    ),
    "yank": (
        "publish.command:add_yank_arguments",
        "mark a published file as not to be chosen; who has locked it still gets it",
        "hostwheel yank s3://wheels/llama FILENAME --reason 'wrong rope scaling'",
    ),
    "unyank": (
        "publish.command:add_unyank_arguments",
        "take a yank back",
        "hostwheel unyank s3://wheels/llama FILENAME",
    ),
    "prune": (
        "publish.command:add_prune_arguments",
        "remove old generations of the catalog, and objects that nothing refers to",
        "hostwheel prune s3://wheels/llama --keep 10 --dry-run",
    ),
    "fsck": (
        "publish.command:add_fsck_arguments",
        "look at everything in a bucket: hashes, links, pages, and what belongs to nothing",
        "hostwheel fsck s3://wheels/llama",
    ),
    "capture": (
        "user.capture_command:add_capture_arguments",
        "print this machine as a host file",
        "hostwheel capture > host.toml",
    ),
    "pick": (
        "user.pick_command:add_pick_arguments",
        "choose the build of a bucket that runs fastest here, and say why none of the others",
        "hostwheel pick https://wheels.example.org --host host.toml",
    ),
    "doctor": (
        "user.doctor_command:add_doctor_arguments",
        "say whether an installed or given build can run here, and what to do where it cannot",
        "hostwheel doctor --python .venv",
    ),
    "bundle": (
        "user.bundle_command:add_bundle_arguments",
        "put a build and all it needs into one file, to install without network",
        "hostwheel bundle out/a10g --gguf model.gguf -o submission.zip",
    ),
    "verify": (
        "user.verify_command:add_verify_arguments",
        "check who built files, from what, and that they are exactly those",
        "hostwheel verify https://wheels.example.org/llama --allowed-signers signers",
    ),
}
"""Name → what adds its options, imported when the command is called; what it does; an example."""

EXIT_CODES = """\
exit status:
  0  well
  1  a check refused or a tool failed
  2  the input is wrong
  3  the machine lacks something"""
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def main(argv: Sequence[str] | None = None) -> int:
    never_fail_to_print()
    given = sys.argv[1:] if argv is None else argv
    arguments = parser(given).parse_args(given)
    for number in STOPPING:
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup has it
            signal.signal(number, stopped)
    try:
        code = int(arguments.run(arguments))
        print(end="", flush=True)  # while an error can still be told
        return code
    except HostwheelError as error:
        print(f"hostwheel: {error}", file=sys.stderr)
        return error.exit_code
    except (BrokenPipeError, SystemExit):  # the reader has enough of it; the second is rich's
        drop_output()
        return 128 + signal.SIGPIPE
    except OSError as error:
        if error.errno not in NO_ROOM or error.filename:
            raise
        drop_output()
        print(f"hostwheel: cannot write: {error.strerror}; make room", file=sys.stderr)
        return MachineLacks.exit_code
    except KeyboardInterrupt as stop:
        print("hostwheel: stopped; run it again to go on from here", file=sys.stderr)
        return 128 + int(stop.args[0] if stop.args else signal.SIGINT)


def drop_output() -> None:
    """Have Python not write at its end, once more in vain, what it still holds."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def never_fail_to_print() -> None:
    """Escape what the terminal's encoding lacks, for example under LC_ALL=POSIX."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def stopped(number: int, frame: FrameType | None) -> None:
    """End as after Ctrl-C, with what we started; a second signal does not cut that short."""
    for later in STOPPING:
        signal.signal(later, signal.SIG_IGN)
    forget_closed_terminal()
    raise KeyboardInterrupt(number)


def parser(argv: Sequence[str] = ()) -> argparse.ArgumentParser:
    """All subcommands; only that which `argv` names has its options, and its wing is imported."""
    top = argparse.ArgumentParser(
        prog="hostwheel",
        description="Wheels and servers of llama.cpp for one named host.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"hostwheel {__version__}")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    called = next((each for each in argv if not each.startswith("-")), None)
    for name, (where, what, example) in COMMANDS.items():
        made = commands.add_parser(
            name,
            help=what,
            description=fill(what, 78),
            epilog=f"example:\n  {example}\n\n{EXIT_CODES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name == called:
            resolve_name(f"hostwheel.{where}")(made)
    return top


if __name__ == "__main__":
    sys.exit(main())
