"""Real containers of docker and podman: a small project is built, repaired and refused in them."""

import dataclasses
import io
import os
import signal
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from hostwheel.artifact.binary import read_binary
from hostwheel.artifact.fatbin import read_fatbin
from hostwheel.build.locked import install_locked
from hostwheel.build.project import build_folder, project_folder
from hostwheel.container.bases import Base, own_base
from hostwheel.container.builder import ContainerBuilder, remove_leftovers, warnings
from hostwheel.container.engines import ContainerEngine, choose
from hostwheel.container.image import (
    build_limits,
    identity,
    image_name,
    look,
    make_image,
)
from hostwheel.container.render import LABEL, Mounts, create_arguments, run_arguments
from hostwheel.errors import MachineLacks, Refused
from hostwheel.plan.defines import ROOT as BUILD_ROOT
from hostwheel.plan.defines import tree
from hostwheel.plan.plan import Plan
from smoke.serving import until
from tests import containers
from tests.plans import ROOT, plan_for

pytestmark = [pytest.mark.container, pytest.mark.network, pytest.mark.timeout(900)]

PYPROJECT = """\
[build-system]
requires = ["scikit-build-core"]
build-backend = "scikit_build_core.build"
[project]
name = "tiny"
version = "1.0+cpu.avx2"
[tool.scikit-build]
build-dir = "BUILD"
wheel.reproducible = true
"""
CMAKE = """\
cmake_minimum_required(VERSION 3.26)
project(tiny LANGUAGES C CXX)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_COMPILER_LAUNCHER sccache)
file(GLOB interfaces RELATIVE /sys/class/net /sys/class/net/*)
file(WRITE "${CMAKE_BINARY_DIR}/interfaces" "${interfaces}")
add_library(tiny SHARED tiny.cpp)
EXTRA
install(TARGETS tiny LIBRARY DESTINATION tiny)
"""
# dlopen has the version GLIBC_2.34 on Debian 12; the string is libstdc++'s.
SOURCE = """\
#include <dlfcn.h>
#include <string>
std::string tiny(const char * name) { return std::string(name) + (dlopen(name, 1) ? "1" : "0"); }
"""
GPU_SOURCE = """\
#include <cublas_v2.h>
__global__ void ones(float * x) { x[threadIdx.x] = 1; }
int gpu(float * x) { ones<<<1, 32>>>(x); cublasHandle_t handle; return cublasCreate(&handle); }
"""
GPU = """
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
add_library(gpu SHARED gpu.cu)
set_target_properties(gpu PROPERTIES CUDA_RUNTIME_LIBRARY Shared)
target_link_libraries(gpu PRIVATE CUDA::cudart CUDA::cublas)
install(TARGETS gpu LIBRARY DESTINATION tiny)
"""
HANGS = "execute_process(COMMAND sleep 600)"
BIG = """
file(WRITE "${CMAKE_BINARY_DIR}/big.cpp" "char big[32 << 20] = {1};")
add_library(big SHARED "${CMAKE_BINARY_DIR}/big.cpp")
"""
GOMP = 'target_link_libraries(tiny PRIVATE "-Wl,--no-as-needed" gomp)'
SECRET = "hunter2-of-the-index"


@pytest.fixture(scope="module", params=["docker", "podman"])
def engine(
    request: pytest.FixtureRequest,
) -> Iterator[ContainerEngine]:
    """An engine that works, with a Debian 12 base in it. Its storage is large: none is kept."""
    start = {"docker": containers.docker, "podman": containers.podman}[request.param]
    with (
        tempfile.TemporaryDirectory(prefix="hostwheel-engine-") as folder,
        pytest.MonkeyPatch.context() as patch,
        start(Path(folder)) as ours,
    ):
        for name, value in ours.items():
            patch.setenv(name, value)
        found = choose(request.param).engine
        assert found is not None
        containers.load_base(found.name)
        yield found


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    folder = tmp_path_factory.mktemp("tools")
    locks = (ROOT / "recipes/locks/build-tools.txt", ROOT / "docker/container-tools.txt")
    for lock in locks:
        install_locked(lock, folder / lock.stem)
    return tuple(folder / lock.stem for lock in locks)


@pytest.fixture(scope="module")
def base() -> Base:
    return own_base(containers.BASE, None)


@pytest.fixture(scope="module")
def image(engine: ContainerEngine, base: Base, tools: tuple[Path, ...]) -> str:
    """The image of the recipes, made where pip's settings hold a password."""
    looked = look(engine, base)
    name = image_name(looked, ROOT / "docker" / "Dockerfile", ())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_EXTRA_INDEX_URL", f"https://me:{SECRET}@localhost:9/simple")
        patch.setenv("HTTPS_PROXY", f"http://me:{SECRET}@localhost:9")
        patch.setenv("PIP_CERT", f"/nowhere/{SECRET}.pem")
        make_image(engine, base, name, ROOT / "docker" / "Dockerfile", tools)
    assert identity(engine, name)
    return name


@pytest.fixture
def builder(engine: ContainerEngine, base: Base, image: str, tmp_path: Path) -> ContainerBuilder:
    return builder_on(engine, base, image, tmp_path)


def builder_on(engine: ContainerEngine, base: Base, image: str, tmp_path: Path) -> ContainerBuilder:
    BUILD_ROOT.mkdir(parents=True, exist_ok=True)  # its disk is looked at when a build fails
    for name in ("tree", "cache"):
        (tmp_path / name).mkdir()
    return ContainerBuilder(
        engine=engine,
        base=base,
        looked=look(engine, base),
        docker=ROOT / "docker",
        image=image,
        locks=(),
        mounts=Mounts(tree=tmp_path / "tree", cache=tmp_path / "cache"),
    )


def write_project(builder: ContainerBuilder, plan: Plan, extra: str = "") -> Path:
    """A small project where the container sees the plan's own."""
    project = builder.mounts.tree / project_folder(plan).relative_to(tree(plan.source))
    project.mkdir(parents=True)
    (project / "pyproject.toml").write_text(PYPROJECT.replace("BUILD", str(build_folder(plan))))
    (project / "CMakeLists.txt").write_text(CMAKE.replace("EXTRA", extra))
    (project / "tiny.cpp").write_text(SOURCE)
    (project / "gpu.cu").write_text(GPU_SOURCE)
    (project / "tiny").mkdir()
    (project / "tiny" / "__init__.py").write_text("")
    return project


def built(builder: ContainerBuilder, plan: Plan, tmp_path: Path, extra: str = "") -> Path:
    """Configure and build, as `build` does; the wheel."""
    planned = builder.planned(plan)
    project, stage = write_project(builder, plan, extra), tmp_path / "stage"
    stage.mkdir()
    log = tmp_path / "build.log"
    builder.configure(planned, project_folder(plan), log)
    wheel, counts = builder.build_wheel(planned, project, stage, log)
    assert counts["compilations"] >= 1
    return wheel


def test_a_wheel_is_built_without_network_and_belongs_to_the_caller(
    builder: ContainerBuilder, tmp_path: Path
) -> None:
    plan = plan_for("cpu-avx2")
    wheel = built(builder, plan, tmp_path)
    assert wheel.name == f"tiny-1.0+cpu.avx2-py3-none-{plan.platform_tag}.whl"
    with zipfile.ZipFile(wheel) as archive:
        assert "tiny/libtiny.so" in archive.namelist()
        info = archive.read("tiny-1.0+cpu.avx2.dist-info/WHEEL").decode()
    assert f"Tag: py3-none-{plan.platform_tag}\n" in info
    assert info.count("Tag:") == 1
    inside = builder.mounts.tree / build_folder(plan).relative_to(tree(plan.source))
    assert (inside / "interfaces").read_text() == "lo"
    made = (wheel, *tmp_path.rglob("*"))
    assert {path.lstat().st_uid for path in made} == {os.getuid()}
    assert any((tmp_path / "cache").rglob("*")), "the cache's folder is not the mounted one"


def test_the_second_time_nothing_is_compiled(builder: ContainerBuilder, tmp_path: Path) -> None:
    plan = plan_for("cpu-avx2")
    first, stage = built(builder, plan, tmp_path), tmp_path / "again"
    stage.mkdir()
    project = builder.mounts.tree / project_folder(plan).relative_to(tree(plan.source))
    log = tmp_path / "build.log"
    second, counts = builder.build_wheel(builder.planned(plan), project, stage, log)
    assert counts["compilations"] == 0
    assert second.read_bytes() == first.read_bytes()


def test_another_user_finds_files_of_its_own(
    builder: ContainerBuilder, engine: ContainerEngine, tmp_path: Path
) -> None:
    plan = builder.planned(plan_for("cpu-avx2"))
    builder.mounts.tree.chmod(0o777)
    argv = run_arguments(engine, plan, builder.mounts, (1234, 5678), {})
    subprocess.run((*argv, "touch", f"{tree(plan.source)}/mine"), check=True)
    assert (tmp_path / "tree" / "mine").stat().st_uid == 1234


def test_the_network_is_what_the_option_makes_it(
    builder: ContainerBuilder, engine: ContainerEngine
) -> None:
    plan = builder.planned(plan_for("cpu-avx2"))
    argv = run_arguments(engine, plan, builder.mounts, (0, 0), {})
    assert interfaces(argv) == ["lo"]
    with_host = tuple("--network=host" if part == "--network=none" else part for part in argv)
    assert len(interfaces(with_host)) > 1  # the control: there is something to be kept from


def interfaces(argv: tuple[str, ...]) -> list[str]:
    said = subprocess.run((*argv, "ls", "/sys/class/net"), check=True, capture_output=True)
    return said.stdout.decode().split()


@pytest.mark.parametrize(
    "engine", ["docker", pytest.param("podman", marks=pytest.mark.by_hand)], indirect=True
)
def test_the_cuda_of_a_base_is_what_is_linked(
    engine: ContainerEngine, tools: tuple[Path, ...], tmp_path: Path
) -> None:
    """C7, C8, C10, C11: CUDA 12.4 of docker/local-cuda12, with nothing of it in the wheel."""
    containers.load_cuda12_base(engine.name)
    plan = plan_for(str(ROOT / "tests/data/a10g-cu12-draft.toml"))
    base = own_base(containers.BASE_CUDA12, "12.4")
    name = image_name(look(engine, base), ROOT / "docker" / "Dockerfile", ())
    make_image(engine, base, name, ROOT / "docker" / "Dockerfile", tools)
    wheel = built(builder_on(engine, base, name, tmp_path), plan, tmp_path, extra=GPU)
    with zipfile.ZipFile(wheel) as archive:
        assert not [each for each in archive.namelist() if ".libs" in each]
        library = Path(archive.extract("tiny/libgpu.so", tmp_path))
    assert {"libcudart.so.12", "libcublas.so.12"} <= set(read_binary(library).needed)
    (image,) = read_fatbin(library)
    assert (image.kind, image.sm, image.compressed) == ("cubin", "86", False)


def test_newer_symbols_than_the_tag_are_refused(builder: ContainerBuilder, tmp_path: Path) -> None:
    plan = dataclasses.replace(plan_for("cpu-avx2"), platform_tag="manylinux_2_28_x86_64")
    with pytest.raises(Refused, match="newer symbols than its platform tag") as caught:
        built(builder, plan, tmp_path)
    assert "manylinux_2_28_x86_64" in str(caught.value)


def test_a_grafted_library_is_refused(builder: ContainerBuilder, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"the repair put in tiny\.libs/libgomp"):
        built(builder, plan_for("cpu-avx2"), tmp_path, extra=GOMP)


def test_no_secret_is_in_the_image_or_its_history(engine: ContainerEngine, image: str) -> None:
    for argv in (("history", "--no-trunc", image), ("image", "inspect", image)):
        said = subprocess.run((engine.name, *argv), check=True, capture_output=True)
        assert image in said.stdout.decode()  # as the argument INPUTS
        assert SECRET not in said.stdout.decode()
    saved = subprocess.run((engine.name, "save", image), check=True, capture_output=True).stdout
    found = sum(SECRET.encode() in content for content in contents(saved))
    assert found == 0
    assert any(b"scikit_build_core" in content for content in contents(saved))  # it can find


def contents(saved: bytes) -> Iterator[bytes]:
    with tarfile.open(fileobj=io.BytesIO(saved)) as tar:
        for member in tar:
            file = tar.extractfile(member) if member.isfile() else None
            yield file.read() if file else b""


def test_a_container_left_behind_is_removed(
    builder: ContainerBuilder, engine: ContainerEngine
) -> None:
    plan = builder.planned(plan_for("cpu-avx2"))
    made = create_arguments(engine, plan, builder.mounts, (0, 0))
    argv = (engine.name, "run", "--detach", *made, builder.image, "sleep", "600")
    subprocess.run(argv, check=True)
    assert left(engine)
    remove_leftovers(engine)
    assert not left(engine)


@contextmanager
def stopped_when_it_runs(engine: ContainerEngine) -> Iterator[None]:
    """As Ctrl-C does, once a container of ours is there."""

    def stop() -> None:
        until(lambda: bool(left(engine)))
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored
    with ThreadPoolExecutor(1) as other:
        stopping = other.submit(stop)
        yield
        stopping.result()
    signal.signal(signal.SIGINT, before)


def test_a_build_that_is_stopped_leaves_no_container(
    builder: ContainerBuilder, engine: ContainerEngine, tmp_path: Path
) -> None:
    plan = builder.planned(plan_for("cpu-avx2"))
    write_project(builder, plan, extra=HANGS)
    with stopped_when_it_runs(engine), pytest.raises(KeyboardInterrupt):
        builder.configure(plan, project_folder(plan), tmp_path / "build.log")
    assert not left(engine)


@pytest.fixture
def small_disk(builder: ContainerBuilder) -> Iterator[ContainerBuilder]:
    """A builder whose tree has 16 MB."""
    where = builder.mounts.tree
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", where), check=True)
    yield builder
    subprocess.run(("umount", where), check=True)


def test_a_disk_that_fills_up_in_there_is_named(
    small_disk: ContainerBuilder, tmp_path: Path
) -> None:
    with pytest.raises(MachineLacks, match="the disk is full; make room and run again to go on"):
        built(small_disk, plan_for("cpu-avx2"), tmp_path, extra=BIG)


def left(engine: ContainerEngine) -> str:
    argv = (engine.name, "ps", "--all", "--quiet", "--filter", f"label={LABEL}={BUILD_ROOT}")
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def test_a_base_newer_than_the_host_is_said(builder: ContainerBuilder) -> None:
    plan = plan_for("cpu-avx2")
    (unpinned,) = warnings(plan, builder)
    assert "not pinned by digest" in unpinned
    older = dataclasses.replace(plan.host, glibc="2.28", glibcxx="3.4.25")
    told = dataclasses.replace(builder, base=dataclasses.replace(builder.base, glibc="2.36"))
    said = list(warnings(dataclasses.replace(plan, host=older), told))
    assert said[0] == unpinned
    assert [each.partition(" needs ")[2].partition(",")[0] for each in said[2:]] == [
        "GLIBC_2.34",
        "GLIBCXX_3.4.26",
    ]
    assert said[1] == f"base {containers.BASE} has glibc 2.36, host {older.name} has 2.28"


def test_an_image_that_cannot_be_pulled_is_named_with_what_to_do(engine: ContainerEngine) -> None:
    with pytest.raises(MachineLacks, match=r"has no image localhost/nowhere:1") as caught:
        look(engine, own_base("localhost/nowhere:1", None))
    assert f"docker/local-base {engine.name}" in str(caught.value)


def derived(engine: ContainerEngine, name: str, command: str) -> Base:
    """A base in which `command` has run."""
    recipe = f"FROM {containers.BASE}\nRUN {command}\n"
    argv = (engine.name, "build", "--network=none", *build_limits(engine), "--tag", name, "-")
    subprocess.run(argv, input=recipe.encode(), check=True)
    return own_base(name, None)


def test_a_base_without_what_cibuildwheel_needs_is_named(engine: ContainerEngine) -> None:
    poor = derived(engine, "localhost/poor:1", "rm -r /opt/python /usr/bin/g++")
    with pytest.raises(MachineLacks, match=r"lacks /opt/python/cp311-cp311/bin/python.*, g\+\+"):
        look(engine, poor)


def test_a_base_has_the_planned_cuda(engine: ContainerEngine) -> None:
    with pytest.raises(MachineLacks, match=r"lacks /usr/local/cuda/bin/nvcc of CUDA 12\.9"):
        look(engine, own_base(containers.BASE, "12.9"))
    nvcc = "mkdir -p /usr/local/cuda/bin && cd /usr/local/cuda/bin && "
    nvcc += "printf '#!/bin/sh\\necho release 12.4, V12.4.131\\n' > nvcc && chmod +x nvcc"
    other = derived(engine, "localhost/cuda:1", nvcc)
    with pytest.raises(MachineLacks, match=r"is 12\.4, planned is 12\.9"):
        look(engine, own_base(other.image, "12.9"))
    assert look(engine, own_base(other.image, "12.4")).nvcc == "12.4.131"
