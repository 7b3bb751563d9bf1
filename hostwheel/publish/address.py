"""Where a bucket is: a folder, or a URL that says nothing we would drop."""

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from hostwheel.errors import BadInput

REMOTE = ("s3", "gs", "az")
# A scheme without its two slashes. A letter before the colon may be a drive, and is left alone.
HALF_A_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?!//)")


def scheme_of(where: str) -> str:
    """ "file", or one of REMOTE. BadInput for what names no bucket, or not exactly one."""
    if not where.strip():
        raise BadInput("the bucket's address is empty: expected a folder or a URL")
    if half := HALF_A_URL.match(where):
        raise BadInput(
            f"{where}: no bucket: a URL begins with {half[1]}://, and a folder of this name "
            f"is ./{where}"
        )
    if "://" not in where:
        return "file"
    scheme = urlsplit(where).scheme
    if scheme not in ("file", *REMOTE):
        known = ", ".join(f"{each}://" for each in ("file", *REMOTE))
        raise BadInput(f"{where}: no bucket: expected a folder, or a URL with {known}")
    if "?" in where or "#" in where:
        raise BadInput(f"{where}: a bucket's URL has no query (?) and no fragment (#)")
    if scheme in REMOTE and "//" in where.partition("://")[2]:
        raise BadInput(f"{where}: has two slashes in a row, which stores read as an empty name")
    return scheme


def local_path(where: str) -> Path:
    """`file:///srv/index`, or a path as it stands."""
    if "://" not in where:
        return Path(where)
    parts = urlsplit(where)
    if parts.netloc not in ("", "localhost"):
        raise BadInput(f"{where}: names the machine {parts.netloc!r}; a file URL has three slashes")
    if not parts.path:
        raise BadInput(f"{where}: names no folder: expected file:///FOLDER")
    return Path(unquote(parts.path))


def check_outside(where: str, out: Path) -> None:
    """BadInput for a folder in that of a build: it would be taken for part of the build."""
    if scheme_of(where) != "file":
        return
    folder = local_path(where).resolve()
    if folder.is_relative_to(out.resolve()):
        raise BadInput(f"{folder}: lies in {out}, the build to publish; give --to another folder")
