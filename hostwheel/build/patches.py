"""Patches to the source: read with the reason for each, and applied exactly or not at all."""

import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hostwheel.errors import BadInput, MachineLacks

NAME = re.compile(r"\d{4}-[a-z0-9][a-z0-9._-]*\.patch")
HEAD = ("Why:", "Upstream:", "Drop when:")
NOT_PATCHES = ("README.md",)
FAILED = re.compile(r"^error: patch failed: (.+):(\d+)$", re.MULTILINE)
REASON = re.compile(r"^error: (?!while searching for:|patch failed: )(.+)$", re.MULTILINE)
HUNK = re.compile(r"@@ -(\d+)[ ,].*@@.*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Patch:
    name: str
    text: str
    sha256: str


def load_patches(folder: Path) -> tuple[Patch, ...]:
    """All patches of a folder in the order of their names (NNNN-what.patch).

    BadInput for another name, or a head without one of the lines in HEAD.
    """
    if not folder.is_dir():
        raise BadInput(f"there is no folder of patches at {folder}")
    files = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    return tuple(load(path) for path in files if path.name not in NOT_PATCHES)


def load(path: Path) -> Patch:
    if not NAME.fullmatch(path.name):
        raise BadInput(f"{path}: a patch is named NNNN-what.patch, like 0001-no-libcuda.patch")
    try:
        raw = path.read_bytes()
        text = raw.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: cannot read it as UTF-8 text: {error}") from None
    head = re.split(r"^(?:diff |--- )", text, maxsplit=1, flags=re.MULTILINE)[0]
    for field in HEAD:
        if not re.search(rf"^{field}[ \t]*\S", head, re.MULTILINE):
            raise BadInput(f"{path}: no line `{field} …` before its first diff; add it")
    return Patch(name=path.name, text=text, sha256=hashlib.sha256(raw).hexdigest())


def apply_patches(patches: Sequence[Patch], tree: Path, *, upstream: str) -> None:
    """Apply in order, without fuzz. `upstream` is the version named when one does not apply.

    BadInput names patch, file and hunk; MachineLacks when git is missing.
    """
    for patch in patches:
        try_apply(patch, tree, upstream, "--check")
        try_apply(patch, tree, upstream)


def try_apply(patch: Patch, tree: Path, upstream: str, *options: str) -> None:
    argv = ("git", "apply", "--verbose", "--whitespace=nowarn", *options, "-")
    try:
        done = subprocess.run(
            argv, cwd=tree, env=environment(tree), input=patch.text.encode(), capture_output=True
        )
    except FileNotFoundError as error:
        if error.filename != argv[0]:
            raise
        raise MachineLacks("patching needs git: apt-get install git") from None
    said = done.stderr.decode(errors="replace")
    # A repository around the tree makes git skip every file of the patch, with exit status 0.
    if done.returncode != 0 or "Skipped patch" in said:
        raise BadInput(
            f"patch {patch.name} does not apply to {upstream}:\n    "
            + "\n    ".join(reasons(patch, said))
            + "\n    fix the patch, or drop it if its `Drop when:` has come true"
        )


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
