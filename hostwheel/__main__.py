"""One subcommand per stage; the only place that turns errors into exit codes."""

import argparse
import errno
import io
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TypeAlias

from hostwheel import __version__
from hostwheel.audit.command import add_arguments
from hostwheel.build.build import build
from hostwheel.build.report import write_report
from hostwheel.build.reproducible import check_reproducible
from hostwheel.bump.planned import planned_by
from hostwheel.bump.registry import INDEX
from hostwheel.bump.request import Request, answer, pin
from hostwheel.bump.show import show_bump
from hostwheel.container.command import (
    add_build_engine,
    add_image_arguments,
    builder_for,
    image,
    pins,
)
from hostwheel.errors import HostwheelError, MachineLacks
from hostwheel.plan.data import Data, file_hashes, find_data
from hostwheel.plan.patches import patch_hashes
from hostwheel.plan.plan import Plan, make_plan
from hostwheel.plan.recipe import load_recipe, recipe_names
from hostwheel.plan.show import HEADINGS, markdown, people, recipe_rows, show_plan, table
from hostwheel.publish import command as publishing
from hostwheel.run import forget_closed_terminal
from hostwheel.smoke.command import EXAMPLE, WHAT, add_smoke_arguments
from hostwheel.user import commands as using

EXIT_CODES = """\
exit status:
  0  well
  1  a check refused or a tool failed
  2  the input is wrong
  3  the machine lacks something"""
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def main(argv: Sequence[str] | None = None) -> int:
    never_fail_to_print()
    arguments = parser().parse_args(argv)
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


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="hostwheel",
        description="Wheels and servers of llama.cpp for one named host.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"hostwheel {__version__}")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    add_recipes(commands)
    add_plan(commands)
    add_build(commands)
    add_image(commands)
    add_pins(commands)
    add_audit(commands)
    add_smoke_arguments(command(commands, "smoke", WHAT, EXAMPLE))
    add_parity(commands)
    add_bump(commands)
    for name, (what, example, add) in {**publishing.COMMANDS, **using.COMMANDS}.items():
        add(command(commands, name, what, example))
    return top


def command(commands: Commands, name: str, what: str, example: str) -> argparse.ArgumentParser:
    made = commands.add_parser(
        name,
        help=what,
        description=what,
        epilog=f"example:\n  {example}\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--recipes", type=Path, metavar="DIR", help="a recipes folder to use")
    return made


def add_recipes(commands: Commands) -> None:
    made = command(commands, "recipes", "show the table of recipes", "hostwheel recipes")
    made.add_argument("--markdown", action="store_true", help="as the README has it")
    made.add_argument("--json", action="store_true", help="for machines")
    made.set_defaults(run=run_recipes)


def add_plan(commands: Commands) -> None:
    what = "show what would be built, to the last option"
    made = command(commands, "plan", what, "hostwheel plan a10g --json")
    made.add_argument("recipe", help="a recipe's name, or a TOML file")
    made.add_argument("--json", action="store_true", help="for machines")
    made.set_defaults(run=run_plan)


def add_build(commands: Commands) -> None:
    what = "build wheel and archive into out/RECIPE"
    made = command(commands, "build", what, "hostwheel build cpu-avx2")
    made.add_argument("recipe", help="a recipe's name, or a TOML file")
    made.add_argument("--archive", type=Path, metavar="FILE", help="a local copy of the source")
    made.add_argument("--out", type=Path, metavar="DIR", default=Path("out"), help="default: out")
    made.add_argument("--json", action="store_true", help="print build.json at the end")
    made.add_argument(
        "--report", action="store_true", help="only draw where the time of the last build went"
    )
    made.add_argument(
        "--check-reproducible",
        action="store_true",
        help="build twice, the second time from nothing, and compare byte by byte",
    )
    add_build_engine(made)
    made.set_defaults(run=run_build)


def add_image(commands: Commands) -> None:
    what = "make the container image that a recipe is built in"
    made = command(commands, "image", what, "hostwheel image a10g --engine docker")
    add_image_arguments(made)
    made.set_defaults(run=run_image)


def add_pins(commands: Commands) -> None:
    what = "look up the digests of the base images, and write them into docker/images.toml"
    made = command(commands, "pins", what, "hostwheel pins")
    made.set_defaults(run=run_pins)


def add_audit(commands: Commands) -> None:
    what = "read a finished wheel, archive or library, and say on which hosts it runs"
    made = command(commands, "audit", what, "hostwheel audit some.whl --host aws-g5")
    add_arguments(made)


def add_parity(commands: Commands) -> None:
    what = "compare a GGUF's log-probabilities with those of transformers in float32"
    example = "hostwheel parity --gguf m.F32.gguf --gguf m.Q8_0.gguf --model folder"
    made = command(commands, "parity", what, example)
    made.add_argument(
        "--gguf",
        type=Path,
        metavar="FILE",
        action="append",
        required=True,
        help="what llama.cpp reads; may be given more than once",
    )
    made.add_argument(
        "--model",
        type=Path,
        metavar="PATH",
        help="what transformers reads: a folder of save_pretrained, or a GGUF; "
        "default: the first --gguf",
    )
    made.add_argument(
        "--at-most",
        type=difference,
        metavar="X",
        help="exit 1 where an F32 cache differs by more than X, or in the likeliest token",
    )
    made.add_argument("--json", action="store_true", help="for machines")
    made.set_defaults(run=run_parity)


def difference(text: str) -> float:
    """A bound for a difference; with NaN or below 0 all would be refused, after minutes."""
    found = float(text)
    if not found >= 0:
        raise ValueError
    return found


def add_bump(commands: Commands) -> None:
    what = "say what a new upstream version changes, and pin it"
    made = command(commands, "bump", what, "hostwheel bump 0.3.37")
    made.add_argument("version", help="a version of llama-cpp-python")
    made.add_argument("--archive", type=Path, metavar="FILE", help="a local copy of its archive")
    made.add_argument("--index", default=INDEX, metavar="URL", help=f"default: {INDEX}")
    base = made.add_mutually_exclusive_group()
    base.add_argument("--from", dest="base", help="a pinned version; default: the pinned default")
    base.add_argument("--from-archive", type=Path, metavar="FILE", help="an archive instead")
    made.add_argument("--write", action="store_true", help="pin it, if the patches apply")
    made.add_argument("--json", action="store_true", help="for machines")
    made.set_defaults(run=run_bump)


def planned(wanted: str, data: Data) -> Plan:
    recipe = load_recipe(wanted, data.recipes)
    patches = patch_hashes(data.patches, recipe.source.version)
    return make_plan(recipe, patches, file_hashes(data.locks, "*.txt"))


def run_recipes(arguments: argparse.Namespace) -> int:
    data = find_data(arguments.recipes)
    rows = recipe_rows(planned(name, data) for name in recipe_names(data.recipes))
    if arguments.json:
        print(json.dumps([dict(zip(HEADINGS, row, strict=True)) for row in rows], indent=1))
    elif arguments.markdown:
        print(markdown(rows), end="")
    else:
        people().print(table(rows))
    return 0


def run_plan(arguments: argparse.Namespace) -> int:
    plan = planned(arguments.recipe, find_data(arguments.recipes))
    if arguments.json:
        print(json.dumps(plan.json(), indent=1))
    else:
        show_plan(plan, people())
    return 0


def run_build(arguments: argparse.Namespace) -> int:
    data = find_data(arguments.recipes)
    plan = planned(arguments.recipe, data)
    out = arguments.out / plan.recipe
    if arguments.report:
        print(write_report(out))
        return 0
    make = check_reproducible if arguments.check_reproducible else build
    builder = builder_for(plan, data, arguments.engine, arguments.base)
    wheel = make(plan, data, out, archive=arguments.archive, builder=builder)
    print((out / "build.json").read_text() if arguments.json else wheel)
    return 0


def run_image(arguments: argparse.Namespace) -> int:
    data = find_data(arguments.recipes)
    print(image(planned(arguments.recipe, data), data, arguments.engine, arguments.base))
    return 0


def run_pins(arguments: argparse.Namespace) -> int:
    for line in pins(find_data(arguments.recipes)):
        print(line)
    return 0


def run_parity(arguments: argparse.Namespace) -> int:
    try:  # late: numpy and llama_cpp belong to this command alone
        from hostwheel.readout.parity_report import as_json, show
        from hostwheel.readout.parity_run import Request, check_agreement, parity
    except ModuleNotFoundError as error:
        raise MachineLacks(
            f"{error.name} is not installed: pip install 'hostwheel[parity]'"
        ) from error
    report = parity(Request(ggufs=tuple(arguments.gguf), model=arguments.model))
    if arguments.json:
        print(json.dumps(as_json(report), indent=1))
    else:
        show(report, people())
    if arguments.at_most is not None:
        check_agreement(report, arguments.at_most)
    return 0


def run_bump(arguments: argparse.Namespace) -> int:
    data = find_data(arguments.recipes)
    plans = [planned(name, data) for name in recipe_names(data.recipes)]
    request = Request(
        version=arguments.version,
        archive=arguments.archive,
        index=arguments.index,
        base=arguments.base,
        base_archive=arguments.from_archive,
        write=arguments.write,
    )
    found = answer(request, data, planned_by(plans))
    if arguments.json:
        print(json.dumps(found.bump.json(), indent=1))
    else:
        show_bump(found.bump, people())
    if arguments.write:
        pin(found, data)
    return 1 if found.bump.unplanned else 0


if __name__ == "__main__":
    sys.exit(main())
