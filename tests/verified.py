"""`hostwheel verify` as tests call it, and a signed bundle to look at."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from hostwheel import __version__
from hostwheel.__main__ import main
from hostwheel.trust.ssh import BUNDLE_NAMESPACE, sign
from hostwheel.trust.sums import SIGNATURE, SUMS, sums
from hostwheel.user.bundle_pack import write_zip
from hostwheel.user.bundle_programs import programs
from hostwheel.user.verify_finding import Finding
from tests.audits import pack
from tests.signed import key, signed_bucket

EVIDENCE = ("statement.json", "build.json", "audit.json", "smoke.json", "audit.html")
OTHER = "wheels/other-1.0-py3-none-any.whl"


def verify(capsys: pytest.CaptureFixture[str], *argv: str | Path) -> tuple[int, str]:
    """Exit status and output."""
    capsys.readouterr()
    code = main(["verify", *map(str, argv)])
    return code, capsys.readouterr().out


def refusals(capsys: pytest.CaptureFixture[str], *argv: str | Path) -> list[Finding]:
    """From --json; the exit status has to agree."""
    code = main(["verify", *map(str, argv), "--json"])
    said = json.loads(capsys.readouterr().out)
    found = [Finding(**each) for each in said["findings"]]
    refused = [each for each in found if each.outcome == "refused"]
    assert (code, said["refused"]) == ((1, True) if refused else (0, False))
    return refused


def signed_bundle(tmp_path: Path) -> Path:
    """As `hostwheel bundle --key` lays it out, with the evidence of our wheel."""
    bucket, folder = signed_bucket(tmp_path), tmp_path / "bundle"
    for name in ("wheels", "evidence", "models"):
        (folder / name).mkdir(parents=True)
    shutil.copy(bucket.file(), folder / "wheels")
    for name in EVIDENCE:
        shutil.copy(bucket.evidence(name), folder / "evidence")
    texts = {"other/__init__.py": b"", "other-1.0.dist-info/METADATA": b"Name: other\n"}
    pack(folder / OTHER, {**texts, "other-1.0.dist-info/WHEEL": b"Tag: py3-none-any\n"})
    (folder / "models" / "m.gguf").write_bytes(b"GGUF")
    for name, path in programs().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / name)
    tool = f"hostwheel {__version__}"
    said = {"schema": 1, "tool": tool, "wheel": bucket.entry()["filename"]}
    (folder / "bundle.json").write_text(json.dumps(said))
    relist(folder)
    return folder


def relist(bundle: Path, namespace: str = BUNDLE_NAMESPACE) -> None:
    """SHA256SUMS in line with what is there, and signed: by one who bundles, and did not build."""
    list_unsigned(bundle)
    (bundle / SIGNATURE).write_bytes(sign((bundle / SUMS).read_bytes(), key(), namespace))


def list_unsigned(bundle: Path) -> None:
    """SHA256SUMS in line with what is there, by someone without the key."""
    files = [path for path in bundle.rglob("*") if path.is_file() and SUMS not in path.name]
    hashes = {
        path.relative_to(bundle).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }
    (bundle / SUMS).write_bytes(sums(hashes))


def packed(bundle: Path) -> Path:
    """As `hostwheel bundle` packs it."""
    files = {path.relative_to(bundle).as_posix(): path for path in bundle.rglob("*")}
    target = bundle.with_suffix(".zip")
    write_zip({name: path for name, path in files.items() if path.is_file()}, bundle, target)
    return target


def our_wheel(bundle: Path) -> Path:
    return next((bundle / "wheels").glob("llama_cpp*"))
