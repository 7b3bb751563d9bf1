"""Real pip and real uv get a published file from the public URL."""

from pathlib import Path

from hostwheel.publish.catalog import Entry


def read_back(url: str, entry: Entry, local: Path) -> None:
    """Download and install `entry` from the index at `url` (…/simple/ or …/simple-json/).

    With pip and uv, under both spellings of its name, by hash, into fresh environments. Refused
    unless what comes is `local`, byte for byte.
    """
    raise NotImplementedError
