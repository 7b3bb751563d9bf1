"""A bucket behind HTTP, and small wheels with everything that publishing asks of one."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote_plus, urlsplit
from zipfile import ZipFile

from hostwheel.publish.catalog import Catalog, Entry, Needs
from hostwheel.publish.index import render
from hostwheel.publish.variants import Variant, variant_of
from tests.audits import pack

AVX2 = ("sse3", "ssse3", "sse4_1", "sse4_2", "popcnt", "avx", "f16c", "fma", "bmi2", "avx2")
AVX512 = (*AVX2, "avx512f", "avx512cd", "avx512vl", "avx512dq", "avx512bw")
TAG = "py3-none-manylinux_2_17_x86_64"
UPLOADED = "2026-11-30T12:00:00.000000Z"
Objects = dict[str, tuple[bytes, str]]
TYPES = {".html": "text/html", ".json": "application/json"}


def needs(sm: str | None = None, features: tuple[str, ...] = AVX2) -> Needs:
    """Of a CPU build, or of one for CUDA 13.0 and an architecture."""
    return Needs(
        features=features,
        cuda="13.0" if sm else None,
        architecture=sm,
        driver="580.65.06" if sm else None,
        glibc="2.17",
        glibcxx="3.4.19",
    )


def tiny_wheel(folder: Path, version: str, requires: str = "", tag: str = TAG) -> Path:
    """llama_cpp_python with one module, one library and one script."""
    base = f"llama_cpp_python-{version}"
    head = f"Metadata-Version: 2.1\nName: llama_cpp_python\nVersion: {version}\n"
    more = f"Requires-Python: >=3.8\n{f'Requires-Dist: {requires}' if requires else ''}"
    texts = {
        "llama_cpp/__init__.py": f'__version__ = "{version}"\n',
        "llama_cpp/lib/libllama.so": version * 100,
        f"{base}.data/scripts/llama-server": "#!python\nprint('server')\n",
        f"{base}.dist-info/METADATA": f"{head}{more.strip()}\n\nVersion: 1 of what it is\n",
        f"{base}.dist-info/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n",
    }
    files = {name: text.encode() for name, text in texts.items()}
    return pack(folder / f"{base}-{tag}.whl", files)


def metadata_of(wheel: Path) -> bytes:
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        return archive.read(next(name for name in names if name.endswith(".dist-info/METADATA")))


def entry_of(wheel: Path, recipe: str, need: Needs | None = None, **other: Any) -> Entry:
    metadata, content = metadata_of(wheel), wheel.read_bytes()
    required = [line for line in metadata.decode().splitlines() if line.startswith("Requires-Dist")]
    made = Entry(
        kind="wheel",
        recipe=recipe,
        title=f"The {recipe} host",
        filename=wheel.name,
        sha256=hashlib.sha256(content).hexdigest(),
        size=len(content),
        uploaded=UPLOADED,
        version=wheel.name.split("-")[1],
        platform_tag="manylinux_2_17_x86_64",
        requires_python=">=3.8",
        requires=tuple(line.partition(": ")[2] for line in required),
        metadata=hashlib.sha256(metadata).hexdigest(),
        needs=need or needs(),
        evidence={},
    )
    return replace(made, **other)


def variant_entry(variant: Variant, recipe: str, need: Needs) -> Entry:
    return entry_of(
        variant.file,
        recipe,
        need,
        kind="variant",
        variant=variant.label,
        properties=variant.properties,
    )


def with_variant(wheel: Path, recipe: str, need: Needs) -> Mapping[Path, Entry]:
    """A wheel and its copy beside it, as they are published."""
    copy = variant_of(wheel, need, wheel.parent)
    return {wheel: entry_of(wheel, recipe, need), copy.file: variant_entry(copy, recipe, need)}


def objects(published: Mapping[Path, Entry]) -> Objects:
    """Key → bytes and content type of a bucket that holds these files."""
    held: Objects = {}
    for file, entry in published.items():
        held[entry.key] = (file.read_bytes(), "binary/octet-stream")
        held[f"{entry.key}.metadata"] = (metadata_of(file), "binary/octet-stream")
    for page in render(Catalog().next(published.values())):
        held[page.key] = (page.body, page.content_type)
    return held


class Server(ThreadingHTTPServer):
    """`website` answers a folder with its index.html, and types by the ending, as file servers do.

    Else keys have to match, and keep their content types, as at S3's REST endpoint. In both, a raw
    `+` in a path is a space. `asked` are the paths that were asked for.
    """

    def __init__(self, held: Objects, website: bool) -> None:
        self.held, self.website = held, website
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"

    def find(self, key: str) -> tuple[bytes, str] | None:
        if not self.website:
            return self.held.get(key)
        if key.endswith("/"):
            key += "index.html"
        found = self.held.get(key)
        return found and (found[0], TYPES.get(Path(key).suffix, "application/octet-stream"))


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        self.server.asked.append(path)
        found = self.server.find(unquote_plus(path).removeprefix("/"))
        body, content_type = found or (b"<Code>NoSuchKey</Code>", "application/xml")
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving(held: Objects, *, website: bool = False) -> Iterator[Server]:
    with Server(held, website) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
