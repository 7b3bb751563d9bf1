"""Are the files of the bundle those that were bundled? SHA256SUMS says."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from hostwheel.errors import BadInput

SUMS = "SHA256SUMS"
SAID = "bundle.json"
SCHEMA = 1
CHUNK = 1 << 20
LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")
# Where each file must have a sum. Beside them people may put what they like.
FOLDERS = ("evidence", "hostwheel", "licenses", "models", "tools", "wheels")
FILES = (SAID, "README.txt", "install.py", "pylock.toml", "requirements.txt", "run-server.sh")
AGAIN = "copy or unpack the bundle anew"


def read_said(bundle: Path) -> dict[str, Any]:
    """bundle.json, after its own sum was checked. BadInput for one of a newer hostwheel."""
    check_file(bundle, SAID, read_sums(bundle).get(SAID, ""))
    said: dict[str, Any] = json.loads((bundle / SAID).read_text(encoding="utf-8"))
    if said["schema"] != SCHEMA:
        raise BadInput(f"{bundle / SAID} has schema {said['schema']}, install.py reads {SCHEMA}")
    return said


def check_files(bundle: Path) -> None:
    """BadInput for the first file that is missing, has other bytes, or has no sum."""
    listed = read_sums(bundle)
    for name, expected in sorted(listed.items()):
        check_file(bundle, name, expected)
    for name in sorted(bundled(bundle) - {*listed, SUMS}):
        raise BadInput(f"{bundle / SUMS} has no line for {name}: {AGAIN}")


def bundled(bundle: Path) -> set[str]:
    """The files there that must have a sum; what Python caches apart."""
    below = (path for folder in FOLDERS for path in (bundle / folder).rglob("*"))
    files = (path for path in below if path.is_file() and path.parent.name != "__pycache__")
    names = {path.relative_to(bundle).as_posix() for path in files}
    return names | {name for name in FILES if (bundle / name).is_file()}


def read_sums(bundle: Path) -> dict[str, str]:
    """sha256 by name, as sha256sum writes it."""
    try:
        lines = (bundle / SUMS).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise BadInput(f"{bundle / SUMS} is missing: {AGAIN}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{bundle / SUMS} cannot be read ({error}): {AGAIN}") from None
    matches = [LINE.fullmatch(line) for line in lines]
    if None in matches:
        number = matches.index(None) + 1
        raise BadInput(f"{bundle / SUMS} has a line that is none of a sum, line {number}: {AGAIN}")
    return {match[2]: match[1] for match in matches if match}


def check_file(bundle: Path, name: str, expected: str) -> None:
    try:
        found = sha256(bundle / name)
    except FileNotFoundError:
        raise BadInput(f"{bundle / name} is missing: {AGAIN}") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"{bundle / name} cannot be read ({error}): {AGAIN}") from None
    if found != expected:
        raise BadInput(
            f"{bundle / name} is not what was bundled: {AGAIN}\n"
            f"    expected sha256 {expected or 'none in ' + SUMS}\n    found    sha256 {found}"
        )


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(CHUNK), b""):
            digest.update(block)
    return digest.hexdigest()
