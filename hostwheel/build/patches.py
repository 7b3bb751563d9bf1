"""Patches applied to a source tree: exactly or not at all."""

import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from hostwheel.errors import BadInput, MachineLacks
from hostwheel.plan.patches import Patch

FAILED = re.compile(r"^error: patch failed: (.+):(\d+)$", re.MULTILINE)
REASON = re.compile(r"^error: (?!while searching for:|patch failed: )(.+)$", re.MULTILINE)
HUNK = re.compile(r"@@ -(\d+)[ ,].*@@.*")


def apply_patches(patches: Sequence[Patch], tree: Path, *, upstream: str) -> None:
    """Apply in order, without fuzz. `upstream` is the version named when one does not apply.

    BadInput names patch, file and hunk; MachineLacks when git is missing.
    """
    for patch in patches:
        if said := complaints(patch, tree):
            raise BadInput(
                f"patch {patch.name} does not apply to {upstream}:\n    "
                + "\n    ".join(said)
                + "\n    fix the patch, or drop it if its `Drop when:` has come true"
            )


def complaints(patch: Patch, tree: Path) -> tuple[str, ...]:
    """Apply one patch; why it could not be, hunk by hunk (the tree is then as before), or ()."""
    return git_apply(patch, tree, "--check") or git_apply(patch, tree)


def git_apply(patch: Patch, tree: Path, *options: str) -> tuple[str, ...]:
    argv = ("git", "apply", "--verbose", "--whitespace=nowarn", *options, "-")
    try:
        done = subprocess.run(
            argv, cwd=tree, env=environment(tree), input=patch.text.encode(), capture_output=True
        )
    except OSError as error:
        if error.filename != argv[0]:
            raise
        why = f"'git' on PATH: {error.strerror}"
        raise MachineLacks(f"patching needs git: apt-get install git ({why})") from None
    said = done.stderr.decode(errors="replace")
    # A repository around the tree makes git skip every file of the patch, with exit status 0.
    if done.returncode == 0 and "Skipped patch" not in said:
        return ()
    return tuple(reasons(patch, said)) or (said.strip(),)


def environment(tree: Path) -> dict[str, str]:
    """No enclosing repository, no GIT_* of a hook that we run in, no user configuration."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "GIT_CEILING_DIRECTORIES": str(tree.resolve().parent),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }


def reasons(patch: Patch, said: str) -> Iterable[str]:
    """What git complained of, with the hunk's number and header where it named a line."""
    for file, line in FAILED.findall(said):
        yield f"{file}: {hunk_at(patch.text, file, int(line))}"
    yield from REASON.findall(said)
    if "Skipped patch" in said:
        yield "git skipped its files: they are not inside the tree"


def hunk_at(text: str, file: str, line: int) -> str:
    """'hunk N: @@ … @@' of the hunk of `file` that starts at the old file's `line`."""
    current, number = "", 0
    for row in text.splitlines():
        if row.startswith("--- "):
            current, number = row[4:].split("\t")[0].partition("/")[2], 0
        elif match := HUNK.match(row):
            number += 1
            if current == file and int(match[1]) == line:
                return f"hunk {number}: {row}"
    return f"line {line}"
