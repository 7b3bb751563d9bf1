"""A bucket's catalog by its address, and where its files are."""

from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from hostwheel import web
from hostwheel.errors import BadInput
from hostwheel.plan.files import read_file, reading
from hostwheel.publish.catalog import Catalog, Entry, read_catalog

CATALOG = "catalog.json"


def bucket(given: str) -> str:
    """The bucket's address, without a slash at its end: http(s):// or file://; a folder is one.

    BadInput for an address that pip and uv could not read from.
    """
    if not given.strip():
        raise BadInput("the bucket's address is empty: give https://…, file://… or a folder")
    address = given.rstrip("/").removesuffix(f"/{CATALOG}")
    scheme = urlsplit(address).scheme
    if scheme in ("http", "https", "file"):
        return address
    if "://" not in given:
        return Path(given.removesuffix(CATALOG) or ".").absolute().as_uri().rstrip("/")
    raise BadInput(
        f"{given}: pip cannot read from {scheme}://; give the https:// address of the bucket"
    )


def fetch(address: str) -> Catalog:
    """The catalog of a bucket. BadInput where there is none, MachineLacks without network."""
    where = f"{address}/{CATALOG}"
    parts = urlsplit(where)
    if parts.scheme == "file":
        path = Path(unquote(parts.path))
        with reading(path):
            found = path.exists()
        if not found:
            raise BadInput(
                f"no bucket in {path.parent}: no {CATALOG}; `hostwheel publish` makes one"
            )
        return read_catalog(read_file(path), where)
    return read_catalog(download(where), where)


def download(where: str) -> bytes:
    try:
        return web.read(where)
    except web.Absent as absent:
        hint = "is it the address that `hostwheel publish` wrote to?"
        raise BadInput(f"{absent}; {hint}") from None


def requirement(address: str, entry: Entry) -> str:
    """For pip and uv: the file itself with its hash, so that no index can offer another."""
    return f"llama-cpp-python @ {address}/{quote(entry.key)}#sha256={entry.sha256}"
