"""`hostwheel verify` on the command line."""

import argparse
import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from hostwheel.errors import BadInput
from hostwheel.plan.show import people
from hostwheel.trust.keyfiles import check_allowed, check_revoked
from hostwheel.trust.ssh import Signers, read_key
from hostwheel.user.verify import verify
from hostwheel.user.verify_finding import Finding, Outcome

THEIRS = "the publisher gives it: a line such as `ssh-ed25519 AAAA…`, in a file"
ORDER: tuple[Outcome, ...] = ("checked", "not checked", "refused")


def add_verify_arguments(made: argparse.ArgumentParser) -> None:
    """Give `made`, the parser of the subcommand, its options."""
    what = "a bucket; a wheel or archive with its statement.json beside it; or a bundle"
    made.add_argument("where", metavar="URL|FILE|BUNDLE", help=what)
    whose = made.add_mutually_exclusive_group()
    allowed = "whose signatures count, as `man ssh-keygen` has it under ALLOWED SIGNERS"
    whose.add_argument("--allowed-signers", type=Path, metavar="FILE", help=allowed)
    whose.add_argument("--key", type=Path, metavar="FILE.pub", help="only this key's count")
    revoked = "keys that no longer count (with --allowed-signers)"
    made.add_argument("--revoked", type=Path, metavar="FILE", help=revoked)
    made.add_argument("--json", action="store_true", help="for machines")
    made.set_defaults(run=run_verify)


def run_verify(arguments: argparse.Namespace) -> int:
    found = tuple(verify(arguments.where, signers_of(arguments)))
    refused = any(each.outcome == "refused" for each in found)
    if arguments.json:
        said = {"schema": 1, "where": arguments.where, "refused": refused}
        print(json.dumps({**said, "findings": [asdict(each) for each in found]}, indent=1))
    else:
        print("\n".join(shown(arguments.where, found, people().width)))
    return 1 if refused else 0


def signers_of(arguments: argparse.Namespace) -> Signers | None:
    """BadInput for files that are not what they have to be, and for --revoked alone."""
    if arguments.revoked and not arguments.allowed_signers:
        raise BadInput("--revoked goes with --allowed-signers; with --key, leave that key out")
    if arguments.key:
        return Signers(key=read_key(arguments.key, THEIRS))
    if arguments.revoked:
        check_revoked(arguments.revoked)
    if arguments.allowed_signers:
        check_allowed(arguments.allowed_signers)
        return Signers(allowed=arguments.allowed_signers, revoked=arguments.revoked)
    return None


def shown(where: str, found: Sequence[Finding], width: int) -> Iterator[str]:
    """What holds is told once for all files of which it does, what does not for each."""
    for outcome in ORDER:
        lines = grouped([each for each in found if each.outcome == outcome])
        if lines:
            yield f"{outcome}:"
        for line in lines:
            yield from textwrap.wrap(
                line,
                width,
                initial_indent="  ",
                subsequent_indent="    ",
                break_long_words=False,
                break_on_hyphens=False,
            )
    refused = sum(each.outcome == "refused" for each in found)
    unchecked = sum(each.outcome == "not checked" for each in found)
    if refused:
        yield f"{where}: refused, {refused} of {len(found)} checks failed"
    else:
        left = f"; not checked: {unchecked}, see above" if unchecked else ""
        yield f"{where}: all that was checked holds{left}"


def grouped(found: Sequence[Finding]) -> list[str]:
    files: dict[tuple[str, str], list[str]] = {}
    for each in found:
        files.setdefault((each.check, each.message), []).append(each.about)
    return [f"{check}: {of(names)}: {message}" for (check, message), names in files.items()]


def of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} files"
