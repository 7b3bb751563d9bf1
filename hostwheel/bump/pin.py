"""A version put into recipes/upstream.toml, behind what is there."""

import re
from pathlib import Path

import tomli_w

from hostwheel.build.folders import writing
from hostwheel.bump.commit import Dated
from hostwheel.bump.registry import Release
from hostwheel.errors import BadInput
from hostwheel.plan.recipe import EARLIEST, LATEST, RELEASE
from hostwheel.plan.table import read_table


def check_unpinned(version: str, upstream: Path) -> None:
    """`version` in PEP 440's normal form."""
    if not re.fullmatch(RELEASE, version):
        raise BadInput(f"{version} is no release like 0.3.36, and only those are pinned")
    if version in read_table(upstream).table("source").values:
        raise BadInput(f"{upstream} pins {version} already; take its table out first")


def write_pin(release: Release, found: Dated, upstream: Path) -> None:
    """Append the table of a release; comments and the other tables stay as they are."""
    check_unpinned(release.version, upstream)
    hint = f"write the table by hand, as the others in {upstream} are"
    if not EARLIEST <= found.epoch <= LATEST:
        raise BadInput(f"the archive is dated {found.epoch}, not from 1980 to 2100; {hint}")
    if found.commit is None:
        raise BadInput(f"the archive does not say which llama.cpp commit it has; {hint}")
    pin = {
        "url": release.url,
        "sha256": release.sha256,
        "llama_cpp_commit": found.commit,
        "epoch": found.epoch,
    }
    text = upstream.read_text(encoding="utf-8").rstrip("\n")
    added = tomli_w.dumps({"source": {release.version: pin}})
    with writing(upstream.parent):
        upstream.write_text(f"{text}\n\n{added}", encoding="utf-8")
