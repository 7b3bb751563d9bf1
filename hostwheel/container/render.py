"""Plan → what docker, podman and cibuildwheel are told. Pure; nothing is left to their defaults."""

import dataclasses
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from hostwheel.build.project import build_folder, project_folder
from hostwheel.container.bases import Base, release_in_base
from hostwheel.container.engines import ContainerEngine
from hostwheel.container.image import CONTAINER_TOOLS, PYTHON, Looked
from hostwheel.plan.defines import ROOT, tree
from hostwheel.plan.plan import Engine, Plan, cuda_environment

# cibuildwheel's name of the one Python that builds. The wheel is py3-none: it fits all others.
IDENTIFIER = "cp311-manylinux_x86_64"
CACHE = PurePosixPath("/var/tmp/hostwheel-cache")
LABEL = "hostwheel.root"
COUNTS = "sccache.json"  # in the build folder: what the cache inside has counted

# Never to be grafted: the driver's libraries belong to the host, CUDA's come as requirements.
EXCLUDED = (
    *("libcuda.so.*", "libnvidia-*.so.*"),
    *("libcudart.so.*", "libcublas.so.*", "libcublasLt.so.*", "libnvrtc.so.*", "libnvJitLink.so.*"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Mounts:
    """Folders of this machine: the tree of the source, and sccache's own."""

    tree: Path
    cache: Path


def planned_in(plan: Plan, engine: str, image: str, looked: Looked, base: Base) -> Plan:
    """The plan with another engine part; its hash stays."""
    compiler = looked.compiler
    cuda = base.cuda_root if release_in_base(plan) else None
    tools = ROOT / "build-tools" / "bin"
    environment = {
        **plan.engine.environment,
        **(cuda_environment(cuda) if cuda else {}),
        **({"CUDAHOSTCXX": str(compiler.gxx)} if plan.cuda else {}),
        "PATH": f"{PurePosixPath(PYTHON).parent}:{tools}:{looked.path}",
        "CC": str(compiler.gcc),
        "CXX": str(compiler.gxx),
        "HOME": "/tmp",
        "SCCACHE_DIR": str(CACHE),
        "SCCACHE_SERVER_UDS": "/tmp/sccache.socket",
    }
    part = Engine(
        name=engine,
        image=image,
        base=base.image if base.digest else f"{base.image} ({looked.identity})",
        environment=environment,
        passed_through=(),
    )
    return dataclasses.replace(plan, engine=part)


def create_arguments(
    engine: ContainerEngine, plan: Plan, mounts: Mounts, user: tuple[int, int]
) -> tuple[str, ...]:
    """How a container of a build is made: no network, two folders, the caller as its user."""
    return (
        "--network=none",
        f"--label={LABEL}={ROOT}",
        "--security-opt=label=disable",  # SELinux would have to relabel the mounted folders
        *engine.limits,
        *engine.run_as_caller(*user),
        f"--volume={mounts.tree}:{tree(plan.source)}",
        f"--volume={mounts.cache}:{CACHE}",
    )


def run_arguments(
    engine: ContainerEngine,
    plan: Plan,
    mounts: Mounts,
    user: tuple[int, int],
    environment: Mapping[str, str],
) -> tuple[str, ...]:
    """What comes before a command that is to run in a container of its own."""
    return (
        *(engine.name, "run", "--rm", *create_arguments(engine, plan, mounts, user)),
        *(f"--env={name}={value}" for name, value in environment.items()),
        *("--workdir=/", str(plan.engine.image)),
    )


def configuration(
    engine: ContainerEngine,
    plan: Plan,
    mounts: Mounts,
    user: tuple[int, int],
    environment: Mapping[str, str],
) -> Mapping[str, Any]:
    """cibuildwheel's configuration file, whole: of the project's own none is taken."""
    return {
        "build": IDENTIFIER,
        "archs": ["x86_64"],
        "manylinux-x86_64-image": str(plan.engine.image),
        "container-engine": {
            "name": engine.name,
            "create-args": list(create_arguments(engine, plan, mounts, user)),
            "disable-host-mount": True,
        },
        "build-frontend": {"name": "build", "args": ["--no-isolation"]},
        "config-settings": {
            "wheel.tags": f"py3-none-{plan.platform_tag}",
            # The mounted project: the configured build folder knows it by this path.
            "cmake.source-dir": str(project_folder(plan)),
        },
        "environment": dict(environment),
        "dependency-versions": "latest",  # the others are a file that has to be copied in
        "repair-wheel-command": repair_command(plan),
        # cibuildwheel would make an environment for it, from the network, and the symbol maps are
        # not there yet. The audit follows outside, as with every engine: build/audited.py.
        "audit-command": "",
        "test-command": "",
        "before-all": "",
        "before-build": "sccache --start-server",  # which has the counts, if only zeros
    }


def repair_command(plan: Plan) -> str:
    """Keep the cache's counts, let it finish writing, then auditwheel. `{…}` is cibuildwheel's."""
    counts = shlex.quote(str(build_folder(plan) / COUNTS))
    excluded = " ".join(f"--exclude {shlex.quote(name)}" for name in EXCLUDED)
    tools = ROOT / CONTAINER_TOOLS
    repair = (
        f"PYTHONPATH={tools} PATH={tools}/bin:$PATH python -m auditwheel repair "
        f"--plat {plan.platform_tag} --only-plat --disable-isa-ext-check {excluded} "
        "-w {dest_dir} {wheel}"
    )
    stats = f"sccache --show-stats --stats-format=json > {counts}"
    return f"{stats} && sccache --stop-server > /dev/null && {repair}"
