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
STORAGE = """\
[storage]
driver = "overlay"
runroot = "{folder}/run"
graphroot = "{folder}/graph"
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
    kept = cache_folder() / "test-base-bookworm.tar"
    if kept.is_file():
        subprocess.run((engine, "load", "--input", kept), check=True)
        return
    need("debootstrap", "apt-get install debootstrap, as root")
    subprocess.run((ROOT / "docker" / "local-base", engine, BASE), check=True)
    fresh = kept.with_suffix(".new")
    fresh.parent.mkdir(parents=True, exist_ok=True)
    fresh.unlink(missing_ok=True)
    subprocess.run((engine, "save", "--output", fresh, BASE), check=True)
    fresh.replace(kept)
