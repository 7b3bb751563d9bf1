"""What a build left, read and copied for the suite."""

import errno
import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostwheel.errors import BadInput, MachineLacks
from hostwheel.plan.plan import plan_hash

FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """What a build left in a recipe's folder; `artifacts` are the files of `dist`, with sha256."""

    plan: Mapping[str, Any]
    artifacts: Mapping[str, str]


def read_build(out: Path) -> Built:
    """BadInput where there is none, or where its plan is not the one that was built to."""
    file, again = out / "build.json", f"`hostwheel build {out.name}` makes one"
    try:
        evidence = json.loads(file.read_text(encoding="utf-8"))
        artifacts = {str(each["name"]): str(each["sha256"]) for each in evidence["artifacts"]}
        built, said = Built(plan=evidence["plan"], artifacts=artifacts), evidence["plan_hash"]
        found = plan_hash(built.plan)
    except OSError as error:
        raise BadInput(f"no build in {out}: {file.name}: {error.strerror}; {again}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f"no build in {out}: {file.name} is of no known form ({error}); {again}"
        ) from None
    if found != said:
        raise BadInput(
            f"{file}: its plan was changed: it has the hash {found}, plan_hash says {said};"
            " build it again"
        )
    return built


def copy_build(out: Path, built: Built, work: Path) -> None:
    """What is tested are copies: exactly the bytes that build.json names, whatever comes later."""
    for name, recorded_hash in built.artifacts.items():
        copy_file(out / "dist" / name, work / name)
        found = hashlib.sha256((work / name).read_bytes()).hexdigest()
        if found != recorded_hash:
            raise BadInput(
                f"{out / 'dist' / name} is not what was built: sha256 {found}, build.json says"
                f" {recorded_hash}; build it again"
            )
    copy_file(out / "build.json", work / "build.json")


def copy_file(source: Path, target: Path) -> None:
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        if error.errno in FULL:
            raise MachineLacks(
                f"no room for a copy of {source.name} in {target.parent}: make room there, or set"
                " TMPDIR to a folder that has it"
            ) from None
        raise BadInput(f"{source}: {error.strerror}; build it again") from None
