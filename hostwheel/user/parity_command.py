"""`hostwheel parity` on the command line."""

import argparse
import json
from pathlib import Path

from hostwheel.errors import MachineLacks
from hostwheel.plan.show import people


def add_parity_arguments(made: argparse.ArgumentParser) -> None:
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


def run_parity(arguments: argparse.Namespace) -> int:
    try:  # late, for --help: numpy and llama_cpp belong to this command alone
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
