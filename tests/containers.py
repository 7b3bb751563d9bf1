"""Real docker and podman for tests: started here, with storage of their own, and stopped after."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hostwheel.build.build import cache_folder
from tests.plans import ROOT, lacking, need

BASE = "localhost/hostwheel-base:bookworm"
BASE_CUDA12 = "localhost/hostwheel-base:bookworm-cuda12"
BARE = "localhost/bare:trixie-venv"
STORAGE = """\
[storage]
driver = "overlay"
runroot = "{folder}/run"
graphroot = "{folder}/graph"
"""
MAKE_BARE = """
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
debootstrap --variant=minbase --include=python3,python3-venv trixie "$root" http://deb.debian.org/debian
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
tar -C "$root" -c . | "$1" import - "$2"
"""


@contextmanager
def docker(folder: Path) -> Iterator[dict[str, str]]:
    """A daemon of our own without any network; yields the environment that finds it."""
    if os.geteuid() != 0:
        lacking("needs root: dockerd is started")
    daemon = need("dockerd", "apt-get install docker.io, as root")
    address = f"unix://{folder}/socket"
    argv = (
        *(daemon, "--iptables=false", "--ip6tables=false", "--bridge=none", "--host", address),
        *("--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec"),
        *("--pidfile", f"{folder}/pid"),
    )
    with Path(folder, "log").open("wb") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log)
    try:
        wait_for(Path(folder, "socket"), process, Path(folder, "log"))
        yield {"DOCKER_HOST": address}
    finally:
        process.terminate()
        process.wait(timeout=60)
        unmount(folder)


def unmount(folder: Path) -> None:
    """dockerd leaves its network namespaces mounted, and a mounted file cannot be removed."""
    for namespace in Path(folder, "exec", "netns").glob("*"):
        subprocess.run(("umount", namespace), check=True)


def wait_for(socket: Path, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + 60
    while not socket.exists():
        assert process.poll() is None, log.read_text()[-2000:]
        assert time.monotonic() < deadline, log.read_text()[-2000:]
        time.sleep(0.1)


@contextmanager
def podman(folder: Path) -> Iterator[dict[str, str]]:
    """podman needs no daemon; its storage is ours, and gone after."""
    if os.geteuid() != 0:
        lacking("needs root: a base image is made")
    need("podman", "apt-get install podman, as root")
    config = folder / "storage.conf"
    config.write_text(STORAGE.format(folder=folder))
    ours = {"CONTAINERS_STORAGE_CONF": str(config)}
    yield ours
    argv = ("podman", "system", "reset", "--force")
    subprocess.run(argv, env={**os.environ, **ours}, capture_output=True, check=True)


def load_base(engine: str) -> None:
    """Debian 12 as a base, made by docker/local-base once and then kept with the downloads."""
    need("debootstrap", "apt-get install debootstrap, as root")
    kept(engine, BASE, (ROOT / "docker" / "local-base", engine, BASE))


def load_cuda12_base(engine: str) -> None:
    """CUDA 12.4 added to it. Not kept: it is fetched faster than it is loaded."""
    script = ROOT / "docker" / "local-cuda12"
    subprocess.run((script, engine, BASE, BASE_CUDA12), check=True)


def load_bare(engine: str) -> None:
    """Another release, Debian 13, with a Python and its pip, and without any compiler."""
    need("debootstrap", "apt-get install debootstrap, as root")
    kept(engine, BARE, ("sh", "-euc", MAKE_BARE, "make-bare", engine, BARE))


def kept(engine: str, name: str, make: tuple[str | Path, ...]) -> None:
    """Have the image `name`, from the cache folder if it has been made before."""
    file = cache_folder() / f"test-{name.rpartition('/')[2].replace(':', '-')}.tar"
    if file.is_file():
        subprocess.run((engine, "load", "--input", file), check=True)
        return
    subprocess.run(make, check=True)
    fresh = file.with_suffix(".new")
    fresh.parent.mkdir(parents=True, exist_ok=True)
    fresh.unlink(missing_ok=True)
    subprocess.run((engine, "save", "--output", fresh, name), check=True)
    fresh.replace(file)
