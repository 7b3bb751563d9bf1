"""ELF001 to ELF003: search paths, versions, and the closed set of libraries."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hostwheel.artifact.facts import Artifact
from hostwheel.audit.result import Standing
from hostwheel.audit.target import Target
from tests.audits import (
    AVX2_PLAN,
    CUDA_PLAN,
    G5,
    NOTHING,
    V2,
    V4,
    artifact,
    audited,
    found_in,
    function,
    library,
    messages,
    native_file,
    plain_wheel,
    standing,
    without_wheel,
)
from tests.plans import link

CUDA_PATH = "$ORIGIN/../nvidia/cu13/lib"
CUDA_NEEDED = ("libcudart.so.13", "libcublas.so.13")
CUDA_REQUIRED = ("nvidia-cuda-runtime>=13,<14", "nvidia-cublas>=13,<14")


def ruled(made: Artifact, target: Target, check: str = "ELF003") -> list[Standing]:
    return [each.standing for each in found_in(made, target, check)]


def needing(*needed: str) -> Artifact:
    return artifact(native_file(needed=needed))


# ELF001


@pytest.mark.parametrize("runpath", ["/home/runner/work/build/bin:$ORIGIN", "/opt/lib", "build"])
def test_a_runpath_of_the_build_machine_is_told(tmp_path: Path, runpath: str) -> None:
    """C12, C13"""
    bad = library(tmp_path / "libx.so", function("f"), runpath=runpath)
    report = audited(plain_wheel(tmp_path, {"pkg/libx.so": bad.read_bytes()}), G5)
    (found,) = standing(report.findings, "noted", "ELF001")
    assert (found.file, runpath.split(":")[0] in found.message) == ("pkg/libx.so", True)
    made = artifact(native_file(runpath=tuple(runpath.split(":"))))
    assert set(ruled(made, AVX2_PLAN, "ELF001")) == {"refused"}


def test_a_relative_runpath_passes(tmp_path: Path) -> None:
    good = library(tmp_path / "libx.so", function("f"), runpath="$ORIGIN:${ORIGIN}/../y")
    report = audited(plain_wheel(tmp_path, {"pkg/libx.so": good.read_bytes()}), G5)
    assert messages(report.findings, "ELF001") == []
    assert ruled(artifact(native_file()), AVX2_PLAN, "ELF001") == []


def test_a_plan_knows_its_runpath() -> None:
    """C3: without this entry the libraries of the nvidia wheels are not found."""
    (found,) = found_in(artifact(native_file()), CUDA_PLAN, "ELF001")
    assert found.message.startswith("RUNPATH $ORIGIN, planned is $ORIGIN:$ORIGIN/../../nvidia")


def test_a_path_of_the_build_machine_in_strings_is_told() -> None:
    made = artifact(native_file(paths=("/home/runner/work/llama.cpp", "/home/x")))
    (found,) = found_in(made, G5, "ELF001")
    assert (found.standing, found.message) == (
        "noted",
        "holds a path of the build machine: /home/runner/work/llama.cpp and 1 more",
    )
    assert ruled(made, AVX2_PLAN, "ELF001") == ["refused"]


# ELF002


@pytest.mark.parametrize(
    ("versions", "message"),
    [
        ({"GLIBC": "2.38"}, "needs GLIBC_2.38, aws-g5 has 2.35"),
        ({"GLIBCXX": "3.4.32"}, "needs GLIBCXX_3.4.32, aws-g5 has 3.4.30"),
        ({"GLIBC": "2.4", "GLIBCXX": "3.4.9"}, None),
        ({"GLIBC": "2.35", "GLIBCXX": "3.4.30"}, None),
    ],
)
def test_a_newer_libc_than_the_hosts_is_refused(
    versions: dict[str, str], message: str | None
) -> None:
    """D1, D3, D4"""
    found = found_in(artifact(native_file(versions=versions)), G5, "ELF002")
    assert [(each.standing, each.message) for each in found] == (
        [("refused", message)] if message else []
    )


@pytest.mark.parametrize(
    ("tag", "promised"),
    [
        ("manylinux_2_17_x86_64", "2.17"),
        ("manylinux2014_x86_64", "2.17"),
        ("manylinux_2_17_x86_64.manylinux_2_28_x86_64", "2.17"),
        ("manylinux_2_28_x86_64", None),
        ("linux_x86_64", None),
    ],
)
def test_a_newer_libc_than_the_tag_promises_is_refused(tag: str, promised: str | None) -> None:
    """D1: pip installs by the tag; without a host, too."""
    made = artifact(native_file(versions={"GLIBC": "2.28"}), name=f"pkg-1.0-py3-none-{tag}.whl")
    assert messages(found_in(made, NOTHING, "ELF002"), "ELF002") == (
        [f"needs GLIBC_2.28, the wheel's tag promises {promised}"] if promised else []
    )


def test_versions_are_read_from_the_file(tmp_path: Path) -> None:
    """D4: every program needs __libc_start_main@GLIBC_2.34."""
    program = link(tmp_path / "tool", runpath="$ORIGIN")
    path = plain_wheel(tmp_path, {"pkg/tool": program.read_bytes()})
    host = G5.host
    assert host is not None
    assert audited(path, G5).verdict == "fits"
    assert audited(path, Target(host=replace(host, glibc="2.17"))).verdict == "unfit"


# ELF003


# C1, C2, C21: CUDA without a dependency; C10, C11: NCCL; C14, C20: a library that was left out
@pytest.mark.parametrize(
    "needed",
    [
        *("libcudart.so.12", "libcublas.so.12", "libnccl.so.2", "libmtmd.so.0"),
        *("libllama.so.0", "libinner.so", "libc.musl-x86_64.so.1"),
    ],
)
@pytest.mark.parametrize("target", [G5, AVX2_PLAN, NOTHING])
def test_what_nobody_provides_is_refused(needed: str, target: Target) -> None:
    (found,) = found_in(needing("libc.so.6", needed), target, "ELF003")
    assert (found.standing, found.message) == ("refused", f"needs {needed}, which nobody provides")


@pytest.mark.parametrize("needed", ["libgomp.so.1", "libssl.so.3", "libvulkan.so.1"])
def test_what_bare_systems_lack_is_not_decided(needed: str) -> None:
    """C18: OpenMP's runtime; refused in a build of ours."""
    assert ruled(needing(needed), G5) == ["undecided"]
    assert ruled(needing(needed), AVX2_PLAN) == ["refused"]


def test_what_every_linux_has_passes() -> None:
    made = needing("libc.so.6", "libm.so.6", "libstdc++.so.6", "ld-linux-x86-64.so.2")
    assert ruled(made, V2) == ruled(made, AVX2_PLAN) == []


@pytest.mark.parametrize(
    ("target", "expected"),
    [(G5, "dismissed"), (V4, "refused"), (CUDA_PLAN, "refused"), (NOTHING, "undecided")],
)
def test_the_driver_is_never_needed_by_us(target: Target, expected: Standing) -> None:
    assert ruled(needing("libcuda.so.1"), target) == [expected]


def cuda_wheel(*requires: str, runpath: tuple[str, ...] = ("$ORIGIN", CUDA_PATH)) -> Artifact:
    return artifact(native_file(needed=CUDA_NEEDED, runpath=runpath), requires=requires)


def test_a_declared_dependency_brings_its_libraries() -> None:
    """C1, C3"""
    assert ruled(cuda_wheel(*CUDA_REQUIRED), G5) == []
    assert ruled(cuda_wheel("nvidia-cublas>=13,<14"), G5) == ["refused"]
    assert ruled(cuda_wheel(*CUDA_REQUIRED, runpath=("$ORIGIN",)), G5) == ["undecided"] * 2


@pytest.mark.parametrize("requirement", ["nvidia-cublas-cu12", "nvidia-cublas>=12,<13", "numpy"])
def test_another_major_version_does_not(requirement: str) -> None:
    """C7, C8"""
    made = cuda_wheel("nvidia-cuda-runtime==13.0.96", requirement)
    (found,) = found_in(made, G5, "ELF003")
    assert (found.standing, "libcublas.so.13" in found.message) == (
        "undecided" if requirement == "numpy" else "refused",
        True,
    )


def test_an_archive_cannot_declare() -> None:
    """C14, C21"""
    made = without_wheel(needing("libcudart.so.13"), "archive")
    assert ruled(made, G5) == ["undecided"]
    assert ruled(without_wheel(needing("libllama.so"), "archive"), G5) == ["refused"]


def test_a_library_alone_is_without_its_neighbours() -> None:
    assert ruled(without_wheel(needing("libllama.so"), "file"), G5) == ["undecided"]


def beside(runpath: tuple[str, ...], folder: str = "pkg") -> Artifact:
    other = native_file(f"{folder}/libother.so")
    return artifact(native_file(needed=("libother.so",), runpath=runpath), other)


@pytest.mark.parametrize(
    ("runpath", "folder", "expected"),
    [
        (("$ORIGIN",), "pkg", []),
        (("${ORIGIN}",), "pkg", []),
        (("$ORIGIN/../pkg.libs",), "pkg.libs", []),
        (("$ORIGIN",), "pkg.libs", ["undecided"]),
        ((), "pkg", ["undecided"]),
    ],
)
def test_a_shipped_library_has_to_be_found(
    runpath: tuple[str, ...], folder: str, expected: list[Standing]
) -> None:
    """C14: shipped, and not found after installation."""
    assert ruled(beside(runpath, folder), G5) == expected


def chain(ext: Mapping[str, Any], middle: Mapping[str, Any]) -> Artifact:
    """pkg/ext.so needs pkg.libs/libmid.so, which needs pkg.libs/libend.so."""
    return artifact(
        native_file("pkg/ext.so", needed=("libmid.so",), **{"runpath": (), **ext}),
        native_file("pkg.libs/libmid.so", needed=("libend.so",), **{"runpath": (), **middle}),
        native_file("pkg.libs/libend.so"),
    )


LED = ("$ORIGIN/../pkg.libs",)


@pytest.mark.parametrize(
    ("ext", "middle", "expected"),
    [
        ({"rpath": LED}, {}, []),  # as auditwheel makes them
        ({"runpath": LED}, {}, ["undecided"]),
        ({"rpath": LED}, {"runpath": ("$ORIGIN/x",)}, ["undecided"]),
        ({"rpath": LED, "runpath": ("$ORIGIN",)}, {}, ["undecided"] * 2),
        ({"rpath": ("$ORIGIN",)}, {"rpath": ("$ORIGIN",)}, ["undecided"]),
    ],
)
def test_the_older_search_path_holds_down_the_chain(
    ext: Mapping[str, Any], middle: Mapping[str, Any], expected: list[Standing]
) -> None:
    assert ruled(chain(ext, middle), G5) == expected


def test_every_way_up_the_chain_has_to_lead_there() -> None:
    made = chain({"rpath": LED}, {})
    other = native_file("pkg/other.so", needed=("libmid.so",), runpath=LED)
    assert ruled(artifact(*made.files, other), G5) == ["undecided"]


def test_libraries_that_need_each_other_end_the_search() -> None:
    one = native_file("a/libone.so", needed=("libtwo.so",), runpath=())
    two = native_file("b/libtwo.so", needed=("libone.so",), runpath=())
    assert ruled(artifact(one, two), G5) == ["undecided"] * 2


def test_the_older_search_path_is_looked_at_too() -> None:
    made = artifact(native_file(runpath=(), rpath=("/opt/lib",)))
    assert messages(found_in(made, G5, "ELF001"), "ELF001") == [
        "RUNPATH /opt/lib is not $ORIGIN-relative"
    ]


@pytest.mark.parametrize("target", [G5, NOTHING])
def test_another_machines_loader_is_not_ours(target: Target) -> None:
    needed = ("ld-linux-aarch64.so.1", "libinner.so")
    there = native_file(machine="aarch64", needed=needed, versions={"GLIBC": "2.99"})
    made = artifact(replace(there, code=None))
    assert ruled(made, target, "ELF002") == ruled(made, target) == []
    assert ruled(made, target, "ISA001") == ["not covered"]


def test_a_link_counts_as_the_library() -> None:
    """libx.so.1 -> libx.so.1.2, as archives have it."""
    made = without_wheel(needing("libother.so.1"), "archive")
    with_link = replace(made.contents, links={"pkg/libother.so.1": "libother.so.1.2"})
    assert ruled(replace(made, contents=with_link), G5) == []


def test_where_a_wheel_is_installed_counts() -> None:
    """`.data/platlib` is unpacked into site-packages."""
    other = native_file("pkg-1.0.data/platlib/pkg/libother.so")
    assert ruled(artifact(native_file(needed=("libother.so",)), other), G5) == []
