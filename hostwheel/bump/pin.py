"""A version put into recipes/upstream.toml, behind what is there."""

from pathlib import Path

import tomli_w

from hostwheel.bump.commit import Dated
from hostwheel.bump.registry import Release
from hostwheel.errors import BadInput
from hostwheel.plan.table import read_table


def check_unpinned(version: str, upstream: Path) -> None:
    if version in read_table(upstream).table("source").values:
        raise BadInput(f"{upstream} pins {version} already; take its table out first")


def write_pin(release: Release, found: Dated, upstream: Path) -> None:
    """Append the table of a release; comments and the other tables stay as they are."""
    check_unpinned(release.version, upstream)
    if found.commit is None:
        hint = f"write the table by hand, as the others in {upstream} are"
        raise BadInput(f"the archive does not say which llama.cpp commit it has; {hint}")
    pin = {
        "url": release.url,
        "sha256": release.sha256,
        "llama_cpp_commit": found.commit,
        "epoch": found.epoch,
    }
    text = upstream.read_text(encoding="utf-8").rstrip("\n")
    added = tomli_w.dumps({"source": {release.version: pin}})
    upstream.write_text(f"{text}\n\n{added}", encoding="utf-8")
