"""Are the files of the bundle those that were bundled? SHA256SUMS says."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from hostwheel.errors import BadInput

SUMS = "SHA256SUMS"
SAID = "bundle.json"
SCHEMA = 1
CHUNK = 1 << 20
AGAIN = "copy or unpack the bundle anew"


def read_said(bundle: Path) -> dict[str, Any]:
    """bundle.json, after its own sum was checked. BadInput for one of a newer hostwheel."""
    check_file(bundle, SAID, read_sums(bundle).get(SAID, ""))
    said: dict[str, Any] = json.loads((bundle / SAID).read_text(encoding="utf-8"))
    if said["schema"] != SCHEMA:
        raise BadInput(f"{bundle / SAID} has schema {said['schema']}, install.py reads {SCHEMA}")
    return said


def check_files(bundle: Path) -> None:
    """BadInput for the first file that is missing or has other bytes."""
    for name, expected in sorted(read_sums(bundle).items()):
        check_file(bundle, name, expected)


def read_sums(bundle: Path) -> dict[str, str]:
    """sha256 by name, as sha256sum writes it."""
    try:
        lines = (bundle / SUMS).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise BadInput(f"{bundle / SUMS} is missing: {AGAIN}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{bundle / SUMS} cannot be read ({error}): {AGAIN}") from None
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


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
