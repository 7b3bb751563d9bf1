"""What a wheel says of itself: copied into it as llama_cpp/hostwheel/__main__.py.

Standard library only, Python 3.8 and newer, and nothing beside it is imported: the folder runs by
its path as well (`python …/llama_cpp/hostwheel`), where `import llama_cpp` fails.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import json
import sys
import textwrap
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
WIDTH = 100
INDENT = 14


def main(given: Sequence[str] | None = None) -> int:
    asked = parser().parse_args(given)
    said = json.loads((HERE / "build-info.json").read_text(encoding="utf-8"))
    checked, problems = verified(HERE.parents[1]) if asked.verify else (0, [])
    if asked.json:
        outcome = {"verified": {"files": checked, "problems": problems}} if asked.verify else {}
        print(json.dumps({**said, **outcome}, indent=1))
    else:
        print("\n".join(lines(said)))
        if asked.verify:
            print("\n" + "\n".join(problems or [f"{checked} files are as RECORD says"]))
    return 1 if problems else 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m llama_cpp.hostwheel",
        description="What this llama-cpp-python was built from, with what, and for which machine.",
    )
    made.add_argument("--json", action="store_true", help="the same as JSON")
    made.add_argument(
        "--verify",
        action="store_true",
        help="hold every installed file against RECORD's sha256; status 1 when one differs",
    )
    return made


def lines(said: dict[str, Any]) -> Iterator[str]:
    yield f"llama-cpp-python {said['version']}"
    for name, value in rows(said):
        first, rest = f"  {name:<{INDENT - 2}}", " " * INDENT
        yield textwrap.fill(
            value, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
        )


def rows(said: dict[str, Any]) -> Iterator[tuple[str, str]]:
    host, source, cuda = said["host"], said["source"], said["cuda"]
    yield "label", said["label"]
    yield "recipe", said["recipe"]
    yield "host", f"{host['name']}: {host['title']}"
    yield "system", f"glibc {host['glibc']}, GLIBCXX_{host['glibcxx']}, or newer"
    yield "CPU needs", " ".join(said["features"]) or "nothing beyond x86-64"
    for backend in said["backends"]:
        yield "CPU code", f"{backend['name']}: {' '.join(backend['flags']) or 'no flags'}"
    if cuda:
        yield "CUDA", f"toolkit {cuda['toolkit']}, machine code for sm_{cuda['architecture']}"
        yield "driver", f"{cuda['driver']} or newer"
        yield "requires", ", ".join(said["requires"])
    on = [f"{name}={value}" for name, value in said["defines"].items() if value != "OFF"]
    yield "defines", " ".join(on) + " (the others are OFF: see --json)"
    yield "compiler", said["compiler"]
    yield "source", f"llama-cpp-python {source['version']}, sha256 {source['sha256']}"
    yield "llama.cpp", source["llama_cpp_commit"]
    for name, sha256 in source["patches"].items():
        yield "patch", f"{name} sha256 {sha256}"
    yield "built by", said["builder"]
    yield "plan", f"sha256 {said['plan_hash']}"
    yield "SBOM", f"{said['sbom']['file']} sha256 {said['sbom']['sha256']}"


def verified(site: Path) -> tuple[int, list[str]]:
    """How many files below `site` RECORD has a hash for, and a sentence for each that differs.

    RECORD is read here: from Python 3.12 on, `Distribution.files` leaves out what is missing.
    """
    found = next(iter(metadata.distributions(name="llama_cpp_python", path=[str(site)])), None)
    record = found.read_text("RECORD") if found else None
    hashed = [row[:2] for row in csv.reader((record or "").splitlines()) if row[1:] and row[1]]
    if not found or not hashed:
        return 0, [f"no RECORD of llama_cpp_python in {site}: not installed from a wheel"]
    problems = (problem(name, wanted, found.locate_file(name)) for name, wanted in hashed)
    return len(hashed), [text for text in problems if text]


def problem(name: str, wanted: str, file: Any) -> str:
    """A sentence when `file` is not what its line in RECORD says, else nothing."""
    kind, _, digest = wanted.partition("=")
    try:
        content = Path(file).read_bytes()
    except OSError as error:
        return f"{name} cannot be read: {error.strerror}"
    found = base64.urlsafe_b64encode(hashlib.new(kind, content).digest()).decode().rstrip("=")
    return "" if found == digest else f"{name} differs: {kind} is {found}, RECORD has {digest}"


if __name__ == "__main__":
    sys.exit(main())
