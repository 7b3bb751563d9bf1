"""SSH keys, a signed bucket in a folder, and what someone may do to it who has no key."""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hostwheel.publish.evidence import read_evidence
from hostwheel.publish.publish import publish
from hostwheel.publish.store import new_bucket
from hostwheel.trust.statement import NAME
from tests.proved import proved


def key(name: str = "release") -> Path:
    """A private key without passphrase; its public one has the same name with .pub."""
    return made_key(name)


@cache
def made_key(name: str) -> Path:
    file = Path(mkdtemp(prefix="hostwheel-keys-")) / name
    argv = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(file))
    subprocess.run(argv, check=True)
    return file


def public(name: str = "release") -> Path:
    return key(name).with_suffix(".pub")


def allowed(file: Path, name: str = "release", options: str = 'namespaces="*@hostwheel"') -> Path:
    """An allowed-signers file for this key."""
    file.write_text(f"{name}@example.org {options} {public(name).read_text()}")
    return file


@cache
def template() -> Path:
    """A folder that was published to with the key; tests take copies of it."""
    folder = Path(mkdtemp(prefix="hostwheel-signed-"))
    put_up(folder / "bucket", key())
    return folder / "bucket"


def put_up(folder: Path, signing: Path | None) -> None:
    evidence = read_evidence(proved(folder.with_name(f"{folder.name}-out")))
    publish(evidence, new_bucket(str(folder)), lambda name, done, total: None, signing)


@dataclass(frozen=True)
class Published:
    """A bucket in a folder. What is changed in it, is changed by hand."""

    folder: Path

    @property
    def catalog(self) -> Any:
        return json.loads((self.folder / "catalog.json").read_text())

    def entry(self, kind: str = "wheel") -> Any:
        return next(each for each in self.catalog["entries"] if each["kind"] == kind)

    def file(self, kind: str = "wheel") -> Path:
        entry = self.entry(kind)
        return self.object(entry["sha256"], entry["filename"])

    def evidence(self, name: str, kind: str = "wheel") -> Path:
        return self.object(self.entry(kind)["evidence"][name], name)

    def object(self, sha256: str, name: str) -> Path:
        return self.folder / "objects" / sha256[:2] / sha256 / name

    def relist(self, old: str, new: str, files: Sequence[str] = ("catalog.json",)) -> None:
        """Lists say `new` where they said `old`."""
        for name in files:
            path = self.folder / name
            assert old in path.read_text(), f"{name} has no {old}"
            path.write_text(path.read_text().replace(old, new))

    def swap(self, path: Path, body: bytes, files: Sequence[str] = ("catalog.json",)) -> None:
        """Another object instead of this one, with the lists in line."""
        old, new = path.parent.name, hashlib.sha256(body).hexdigest()
        target = self.object(new, path.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(body)
        self.relist(old, new, files)

    def statement(self, body: bytes, kind: str = "wheel") -> None:
        self.swap(self.evidence(NAME, kind), body)

    def envelope(self, kind: str = "wheel") -> Any:
        return json.loads(self.evidence(NAME, kind).read_text())


def signed_bucket(folder: Path) -> Published:
    return Published(shutil.copytree(template(), folder / "bucket"))
