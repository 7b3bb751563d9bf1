"""What doctor finds in a case made by hand."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hostwheel.user.doctor import diagnose
from hostwheel.user.doctor_build import Build, Library
from hostwheel.user.findings import Finding
from tests.users import A10G, build, case, entry, machine

G5 = machine("zen2", A10G)
CUDART = Library(name="libcudart.so.13", user="libggml-cuda.so", path=None, declared=True)
GOMP = Library(name="libgomp.so.1", user="libggml.so", path=Path("/usr/lib/libgomp.so.1"))
TORCHS = Path("/site/torch/lib/libgomp-a34b3233.so.1")


def bad(*found: Finding) -> list[Finding]:
    return [each for each in found if each.standing != "well"]


def found(*given: Any, **changes: Any) -> list[Finding]:
    return bad(*diagnose(case(*given, **changes)))


def foreign(**changes: Any) -> Build:
    """Somebody else's build for the CPU."""
    needs = replace(entry("cpu-avx2").needs, features=(), glibc="2.17", glibcxx="3.4.21")
    return build("cpu-avx2", ours=False, needs=needs, **changes)


def only(found: Sequence[Finding]) -> Finding:
    (finding,) = found
    return finding
