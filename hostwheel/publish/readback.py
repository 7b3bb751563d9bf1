"""Real pip and real uv get a published file from the public URL."""

import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote
from zipfile import ZipFile

from hostwheel import web
from hostwheel.artifact.contents import sha256
from hostwheel.errors import BadInput, MachineLacks, Refused, StepFailed
from hostwheel.plan.files import reading
from hostwheel.publish.catalog import Entry
from hostwheel.publish.links import project_of
from hostwheel.publish.page import JSON
from hostwheel.run import capture, say

PATIENCE_S = 90.0  # a cache before the bucket may keep a page for INDEX_CACHE
POLL_S = 2.0
KEPT = ("PIP_CERT", "PIP_PROXY", "PIP_CLIENT_CERT", "PIP_TIMEOUT", "PIP_DEFAULT_TIMEOUT")
HINT = "is it the public URL? check network and proxy too (HTTPS_PROXY, SSL_CERT_FILE)"
TOOLS: Mapping[str, tuple[str, ...]] = {
    "pip": (sys.executable, "-m", "pip"),
    "uv": (sys.executable, "-m", "uv"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One installer at one index, with one spelling of the project's name."""

    tool: str
    index: str
    project: str


def read_back(url: str, entry: Entry, local: Path, *, patience_s: float = PATIENCE_S) -> None:
    """Get `entry` from the bucket at `url` as users do, and compare it with `local`.

    A wheel is installed by hash, without its dependencies, into fresh environments: by pip and uv,
    from HTML and JSON, from the bucket's index and its channel, under both spellings of its name.
    What installers do not see (archives), or choose by machine (variants), is downloaded. A page
    that does not list it yet is asked for again until `patience_s` are over. Refused with what
    differed; MachineLacks without uv or network.
    """
    with reading(local):
        found = sha256(local)
    if found != entry.sha256:
        raise BadInput(f"{local} is not the {entry.filename} that was published")
    root = url.rstrip("/") + "/"
    check_object(root + quote(entry.key), entry.sha256)
    if entry.metadata:
        check_object(f"{root}{quote(entry.key)}.metadata", entry.metadata)
    if entry.kind != "wheel":
        return
    require_uv()
    for index, project in ways(root, entry):
        wait_until_listed(index, entry, patience_s)
        for tool in TOOLS:
            attempt = Attempt(tool=tool, index=index, project=project)
            install_and_compare(attempt, entry, local)


def ways(url: str, entry: Entry) -> Iterator[tuple[str, str]]:
    """Index and spelling. Folders, file servers and website hosting have HTML only: none of them
    has a key that ends in a slash, and says what its JSON is."""
    written, normal = entry.filename.partition("-")[0], project_of(entry.filename)
    yield f"{url}simple/", normal
    yield f"{url}{entry.recipe}/simple/", written
    if serves_json(f"{url}simple-json/"):
        yield f"{url}simple-json/", written
        yield f"{url}{entry.recipe}/simple-json/", normal
    else:
        say(f"{url}simple-json/ is not served as JSON: only HTML is read back")


def serves_json(where: str) -> bool:
    if where.startswith("file:"):
        return False
    try:
        with web.opened(where) as answer:
            return answer.content_type == JSON
    except (web.Absent, MachineLacks):
        return False


def require_uv() -> None:
    if find_spec("uv") is None:
        raise MachineLacks(
            f"reading back needs uv beside hostwheel: {sys.executable} -m pip install uv"
        )


def check_object(where: str, sha256: str) -> None:
    """An object itself, by its link. Refused where the server has none."""
    seen = hashlib.sha256()
    try:
        with web.opened(where, hint=HINT) as answer:
            for block in answer.blocks:
                seen.update(block)
    except web.Absent as absent:
        raise Refused(str(absent)) from None
    if seen.hexdigest() != sha256:
        raise Refused(
            f"{where}: sha256 {seen.hexdigest()}, published was {sha256}; `hostwheel fsck` looks"
            " for more of the kind"
        )


def wait_until_listed(index: str, entry: Entry, patience_s: float) -> None:
    """Until the project's page has the file. Refused when that takes longer."""
    page = f"{index}{project_of(entry.filename)}/"
    where = f"{page}index.html" if page.startswith("file:") else page
    until = time.monotonic() + patience_s
    while problem := unlisted(where, entry):
        if time.monotonic() >= until:
            raise Refused(
                f"{problem}, {patience_s:.0f} s after it was published; is that the bucket's public"
                " URL, and is no cache before it that keeps pages longer?"
            )
        time.sleep(POLL_S)


def unlisted(where: str, entry: Entry) -> str:
    """What is wrong with a page as to `entry`; "" where it lists it."""
    try:
        page = web.read(where, hint=HINT)
    except (web.Absent, MachineLacks) as error:  # a cache may remember this as well
        return str(error)
    listed = entry.sha256.encode() in page
    return "" if listed else f"{where} lists no {entry.filename} with sha256 {entry.sha256}"


def install_and_compare(attempt: Attempt, entry: Entry, local: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="hostwheel-readback-") as folder:
        site = install(attempt, entry, Path(folder))
        found = next(differences(site, local), None)
    if found:
        raise Refused(f"{attempt.tool} installed {entry.filename} from {attempt.index}: {found}")


def install(attempt: Attempt, entry: Entry, folder: Path) -> Path:
    """Into a fresh environment; return its site-packages."""
    wanted, fresh, env = folder / "requirements.txt", folder / "env", clean(os.environ)
    wanted.write_text(f"{attempt.project}=={entry.version} --hash=sha256:{entry.sha256}\n")
    try:
        capture((*TOOLS["uv"], "venv", "--quiet", "--python", sys.executable, str(fresh)), env=env)
        capture((*command(attempt, fresh), "--requirement", str(wanted)), env=env)
    except StepFailed as error:
        raise Refused(
            f"{attempt.tool} cannot install {entry.filename} from {attempt.index}:\n{error}"
        ) from None
    return next((fresh / "lib").glob("python*/site-packages"))


def command(attempt: Attempt, env: Path) -> tuple[str, ...]:
    python = str(env / "bin" / "python")
    same = ("--require-hashes", "--no-deps", "--quiet", "--no-cache-dir")
    if attempt.tool == "pip":
        start = ("--python", python, "install", "--disable-pip-version-check")
        return (*TOOLS[attempt.tool], *start, *same, "--index-url", attempt.index)
    start = ("pip", "install", "--python", python)
    return (*TOOLS[attempt.tool], *start, *same, "--no-config", "--default-index", attempt.index)


def clean(ours: Mapping[str, str]) -> dict[str, str]:
    """The environment `ours` without what would have pip or uv look elsewhere."""
    env = {
        name: value
        for name, value in ours.items()
        if name in KEPT or not name.startswith(("PIP_", "UV_", "PYTHON"))
    }
    return env | {"PIP_CONFIG_FILE": os.devnull, "UV_PYTHON_DOWNLOADS": "never"}


def differences(site: Path, local: Path) -> Iterator[str]:
    """Members of the wheel that were not installed as they are. Those of .data end elsewhere."""
    with ZipFile(local) as wheel:
        for info in wheel.infolist():
            top, _, rest = info.filename.partition("/")
            if info.is_dir() or top.endswith(".data") or rest == "RECORD":
                continue
            installed = site / info.filename
            if not installed.is_file():
                yield f"{info.filename} is missing"
            elif installed.read_bytes() != wheel.read(info):
                yield f"{info.filename} has other bytes than {local}"
