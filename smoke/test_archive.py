"""The archive in a container that has next to nothing: no Python, no shell, no /usr."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from smoke.installed import Artifact, Installed, unpack

# glibc and libstdc++. The names of the middle row are stubs, since glibc 2.34.
SYSTEM = (
    *("ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1"),
    *("libpthread.so.0", "libdl.so.2", "librt.so.1"),
)
FOLDERS = ("/lib64", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/usr/lib64")
SHIELDED = ("unshare", "--map-root-user", "--net", "--pid", "--fork")
BIN = Path("/server/bin")


@dataclass(frozen=True, kw_only=True, slots=True)
class Bare:
    """A root folder with the archive unpacked in /server, and the C libraries."""

    root: Path

    def run(self, *argv: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a program of it, shut in: without network, other processes and environment."""
        proc = f"--mount-proc={self.root / 'proc'}"  # the loader finds $ORIGIN there
        command = (*SHIELDED, proc, "chroot", self.root, *argv)
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)


def system_library(name: str) -> Path | None:
    found = (Path(folder, name) for folder in FOLDERS)
    return next((path for path in found if path.exists()), None)


def within(root: Path, path: Path) -> Path:
    """Where the loader of `root` looks for what is at `path` here."""
    return root / path.relative_to("/")


@pytest.fixture(scope="session")
def bare(
    artifact: Artifact,
    plan: Mapping[str, Any],
    installed: Installed,
    tmp_path_factory: pytest.TempPathFactory,
) -> Bare:
    root = tmp_path_factory.mktemp("bare") / "root"
    for folder in ("proc", "tmp"):
        (root / folder).mkdir(parents=True)
    for library in filter(None, map(system_library, SYSTEM)):
        within(root, library).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, within(root, library))
    unpack(artifact.archive, root)
    (root / artifact.archive.name.removesuffix(".tar.gz")).rename(root / "server")
    if plan["cuda"]:  # which the archive leaves to a bundle
        nvidia = installed.package.with_name("nvidia")
        shutil.copytree(nvidia, root / "server" / "lib" / "nvidia", copy_function=os.link)
    if subprocess.run((*SHIELDED, "--mount-proc", "true"), capture_output=True).returncode:
        pytest.skip("not run here: no namespaces for a container without root")
    return Bare(root=root)


def differing(libraries: Path, tested: Path) -> list[str]:
    """Files of the folder `libraries` that `tested` has not, or not with the same sha256."""
    names = sorted(path.relative_to(libraries) for path in libraries.rglob("*") if path.is_file())
    assert names, f"nothing in {libraries}"
    return [str(name) for name in names if digest(libraries / name) != digest(tested / name)]


def digest(file: Path) -> str | None:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None


def test_its_libraries_are_those_of_the_wheel(
    artifact: Artifact, installed: Installed, tmp_path: Path
) -> None:
    """So what is checked of the wheel holds for the archive. A4, A12"""
    unpack(artifact.archive, tmp_path)
    libraries = tmp_path / artifact.archive.name.removesuffix(".tar.gz") / "lib/llama_cpp/lib"
    assert differing(libraries, installed.package / "lib") == []


def test_llama_server_says_its_version(bare: Bare, plan: Mapping[str, Any]) -> None:
    """C14"""
    done = bare.run(BIN / "llama-server", "--version")
    assert done.returncode == 0, done.stderr
    assert plan["source"]["llama_cpp_commit"] in done.stdout + done.stderr


def test_a_model_is_computed(bare: Bare, tiny: Callable[[str], Path]) -> None:
    """So that a backend was found there, and everything that it needs. C14, C18"""
    shutil.copy(tiny("Q4_0"), bare.root / "tmp" / "tiny.gguf")
    model = ("-m", "/tmp/tiny.gguf", "-p", "16", "-n", "4", "-r", "1", "-ngl", "0", "-o", "json")
    done = bare.run(BIN / "llama-bench", *model)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('"avg_ts"') == 2


def test_nothing_else_was_needed(bare: Bare) -> None:
    """The folder holds what it was given: a library less, and nothing starts. C14"""
    here = system_library("libstdc++.so.6")
    assert here
    lost = within(bare.root, here)
    hidden = lost.rename(bare.root / "tmp" / "hidden")
    done = bare.run(BIN / "llama-server", "--version")
    hidden.rename(lost)
    assert done.returncode != 0
    assert "libstdc++.so.6" in done.stderr
