"""Audits of what a test has built, and facts made by hand where building them takes too much."""

import base64
import hashlib
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hostwheel.artifact.facts import (
    Artifact,
    Code,
    Contents,
    File,
    Image,
    Member,
    Native,
    Spot,
    Use,
)
from hostwheel.artifact.wheelfile import read_wheel
from hostwheel.audit.audit import audit, findings
from hostwheel.audit.result import Finding, Report
from hostwheel.audit.target import Target, known_hosts, of_plan
from hostwheel.facts.host import Host
from hostwheel.plan.plan import Plan
from tests.plans import ROOT, link, plan_for

HOSTS = {host.name: host for host in known_hosts(ROOT / "recipes")}
G5, V2, V4 = (Target(host=HOSTS[name]) for name in ("aws-g5", "x86-64-v2", "x86-64-v4"))
AVX2_PLAN = of_plan(plan_for("cpu-avx2"))
CUDA_PLAN = of_plan(plan_for("a10g"))
NOTHING = Target()


def function(name: str, *instructions: str) -> str:
    """A global function in assembler, with type and size."""
    body = "\n".join(f" {each}" for each in (*instructions, "ret"))
    return f".globl {name}\n.type {name}, @function\n{name}:\n{body}\n.size {name}, . - {name}"


def library(path: Path, *functions: str, runpath: str = "$ORIGIN") -> Path:
    return link(path, "\n".join(functions), runpath=runpath)


def audited(path: Path, target: Target, hosts: Iterable[Host] = ()) -> Report:
    return audit(path, target, tuple(hosts), None)


def standing(found: Iterable[Finding], standing: str, check: str = "") -> list[Finding]:
    return [each for each in found if each.standing == standing and each.check.startswith(check)]


def messages(found: Iterable[Finding], check: str) -> list[str]:
    return [each.message for each in found if each.check == check and each.standing != "dismissed"]


# facts by hand


def image(sm: str, kind: Any = "cubin", **changes: Any) -> Image:
    made = Image(
        kind=kind,
        sm=sm,
        compressed=False,
        size=9,
        version="1.8",
        section=".nv_fatbin",
        toolkit=None,
    )
    return replace(made, **changes)


def native_file(
    name: str = "pkg/libx.so", *, images: tuple[Image, ...] = (), **native: Any
) -> File:
    """An ELF file without code of interest."""
    facts = Native(
        format="ELF",
        machine="x86-64",
        needed=(),
        soname=None,
        runpath=("$ORIGIN",),
        rpath=(),
        versions={},
        imports=(),
        exports=(),
        build_id=None,
        level=None,
        paths=(),
    )
    return File(
        member=Member(name=name, path=Path(name), size=1, packed=1, sha256=name),
        native=replace(facts, **native),
        code=Code(instructions=1, invalid=0, used={}, asks=False),
        images=images,
    )


def using(file: File, *features: str, asks: bool = False, invalid: int = 0, **spot: Any) -> File:
    """The same file with one spot for each feature."""
    made = Spot(function="f", address=0x1000, count=9, text="nop", evidence=None)
    use = Use(count=9, spots=(replace(made, **spot),))
    used = dict.fromkeys(features, use)
    return replace(file, code=Code(instructions=99, invalid=invalid, used=used, asks=asks))


def artifact(*files: File, name: str = "pkg-1.0-py3-none-any.whl", **changes: Any) -> Artifact:
    """A wheel of these files; `requires` and the like are of its metadata."""
    members = tuple(file.member for file in files)
    wheel = replace(read_wheel(name, members), problems=(), infos=("pkg-1.0.dist-info",))
    contents = Contents(
        path=Path(name),
        kind="wheel",
        size=1,
        sha256="0" * 64,
        members=members,
        nested=(),
        links={},
        wheel=replace(wheel, **changes),
    )
    return Artifact(contents=contents, files=files)


def without_wheel(made: Artifact, kind: Any) -> Artifact:
    return replace(made, contents=replace(made.contents, kind=kind, wheel=None))


def found_in(made: Artifact, target: Target, check: str) -> list[Finding]:
    return [each for each in findings(made, target) if each.check == check]


# wheels


def pack(path: Path, files: Mapping[str, bytes]) -> Path:
    """A wheel of these files with a RECORD that holds."""
    info = next(name.split("/")[0] for name in files if ".dist-info/" in name)
    record = "".join(
        f"{name},{recorded(content)},{len(content)}\n" for name, content in files.items()
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        archive.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
    return path


def recorded(content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
    return f"sha256={digest.decode()}"


def plain_wheel(folder: Path, more: Mapping[str, bytes] | None = None, **metadata: str) -> Path:
    """pkg 1.0 for any Python on glibc 2.35; keywords add lines such as `requires_dist`."""
    head = "Metadata-Version: 2.1\nName: pkg\nVersion: 1.0\n"
    lines = "".join(f"{key.replace('_', '-')}: {value}\n" for key, value in metadata.items())
    tag = "py3-none-manylinux_2_35_x86_64"
    files = {
        "pkg/__init__.py": b"'''A package.'''\n",
        **(more or {}),
        "pkg-1.0.dist-info/METADATA": f"{head}{lines}".encode(),
        "pkg-1.0.dist-info/WHEEL": f"Wheel-Version: 1.0\nTag: {tag}\n".encode(),
    }
    return pack(folder / f"pkg-1.0-{tag}.whl", files)


def planned_wheel(folder: Path, plan: Plan, files: Mapping[str, bytes]) -> Path:
    return pack(folder / plan.wheel, files)
