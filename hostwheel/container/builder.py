"""The container engine: cibuildwheel outside, the plan's compile in a container without network."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from hostwheel.build.engine import (
    Jobs,
    available_memory,
    cache_stats,
    compile_all,
    configure_argv,
    explained,
    jobs,
    one_wheel,
)
from hostwheel.build.evidence import Machine
from hostwheel.build.folders import writing
from hostwheel.build.product import wheel_members
from hostwheel.build.project import build_folder
from hostwheel.build.steps import last_costs
from hostwheel.build.toolchain import (
    Compiler,
    Toolkit,
    check_gcc,
    check_host_compiler,
    cuda_toolkit,
    install_locked,
)
from hostwheel.container.bases import Base, base_for, docker_folder, read_bases, release_in_base
from hostwheel.container.engines import ContainerEngine, caller
from hostwheel.container.image import (
    CONTAINER_TOOLS,
    Looked,
    image_name,
    look,
    make_image,
    newer_than_host,
)
from hostwheel.container.render import (
    COUNTS,
    LABEL,
    Mounts,
    configuration,
    planned_in,
    run_arguments,
)
from hostwheel.container.team_cache import AS_A_BUCKET, shared, team_cache
from hostwheel.errors import Refused, StepFailed
from hostwheel.facts.versions import numeric
from hostwheel.plan.data import Data
from hostwheel.plan.defines import ROOT, toolkit_root, tree
from hostwheel.plan.plan import Plan
from hostwheel.run import live

# Of sccache's settings those that mean something without network: its bucket is not reached.
CACHE_SETTINGS = ("SCCACHE_RECACHE", "SCCACHE_CACHE_SIZE")

# What auditwheel and cibuildwheel say, where it is the wheel that is wrong.
TOO_NEW = "too-recent versioned symbols"
NOT_FOUND = "could not be located"


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerBuilder:
    """Builds in one image. `mounts` are the folders of this machine that it sees."""

    engine: ContainerEngine
    base: Base
    looked: Looked
    docker: Path
    image: str
    locks: tuple[Path, ...]
    mounts: Mounts

    @property
    def objects(self) -> str:
        """Whose objects lie in a build folder: equal compilers have equal bases."""
        return self.looked.identity

    def compiler(self, plan: Plan) -> Compiler:
        check_gcc(self.looked.compiler, plan)
        return self.looked.compiler

    def planned(self, plan: Plan) -> Plan:
        return planned_in(plan, self.engine.name, self.image, self.looked, self.base)

    def tools(self, plan: Plan, data: Data, compiler: Compiler) -> Machine:
        """Download the tools out here, where the user's index and certificates are; then the
        image. What a killed build left running is removed: the caller holds the lock."""
        remove_leftovers(self.engine)
        folders = tuple(self.installed(plan, lock) for lock in self.locks)
        make_image(self.engine, self.base, self.image, self.docker / "Dockerfile", folders)
        return Machine(compiler=compiler, toolkit=self.toolkit(plan, compiler))

    def installed(self, plan: Plan, lock: Path) -> Path:
        if lock.name.startswith("cuda-") and plan.cuda:
            return cuda_toolkit(lock, toolkit_root(plan.cuda.toolkit)).root
        install_locked(lock, ROOT / lock.stem)
        return ROOT / lock.stem

    def toolkit(self, plan: Plan, compiler: Compiler) -> Toolkit | None:
        if plan.cuda is None:
            return None
        root = self.base.cuda_root if release_in_base(plan) else None
        if root is None:
            lock = next(lock for lock in self.locks if lock.name.startswith("cuda-"))
            toolkit = cuda_toolkit(lock, toolkit_root(plan.cuda.toolkit))
            check_host_compiler(compiler, toolkit)
            return toolkit
        return Toolkit(  # part of the base: no packages, and its own nvcc refuses a wrong GCC
            root=root,
            nvcc=root / "bin" / "nvcc",
            version=self.looked.nvcc or plan.cuda.toolkit,
            release=plan.cuda.release,
            packages={},
        )

    def configure(self, plan: Plan, project: Path, log: Path) -> None:
        count = jobs(len(os.sched_getaffinity(0)), available_memory())
        environment = compile_environment(plan, count)
        before = run_arguments(self.engine, plan, self.mounts, caller(), environment)
        with writing(self.mounts.cache):
            self.mounts.cache.mkdir(parents=True, exist_ok=True)
        try:
            with ending_containers(self.engine):
                live((*before, *configure_argv(plan, project)), env=dict(os.environ), log=log)
        except StepFailed as error:
            raise explained(error, log.read_text(errors="replace"), count.every) from None

    def build_wheel(
        self, plan: Plan, project: Path, stage: Path, log: Path
    ) -> tuple[Path, dict[str, int]]:
        """Have cibuildwheel build `project`; the wheel in `stage`, and sccache's counts."""
        count = jobs(len(os.sched_getaffinity(0)), available_memory())
        environment = compile_environment(plan, count)
        config = configuration(self.engine, plan, self.mounts, caller(), environment)
        file = stage / "cibuildwheel.toml"
        file.write_text(tomli_w.dumps({"tool": {"cibuildwheel": config}}))
        costs = last_costs(build_folder(plan), log.with_name("build.json"))
        most = count.cuda if plan.cuda else count.every
        team = team_cache(os.environ)
        with ending_containers(self.engine), shared(team, self.mounts.cache):
            run_cibuildwheel(project, file, stage, log, costs, most)
        wheel = one_wheel(stage, log)
        check_no_graft(wheel)
        return wheel, counts(self.mounts, plan)


def compile_environment(plan: Plan, count: Jobs) -> dict[str, str]:
    """The plan's, the jobs, and of the user's what says how the cache is used."""
    cache = {name: os.environ[name] for name in CACHE_SETTINGS if name in os.environ}
    if "SCCACHE_BUCKET" in os.environ:
        cache |= AS_A_BUCKET
    return {**cache, **plan.engine.environment, **count.environment()}


def container_builder(
    plan: Plan, data: Data, engine: ContainerEngine, wanted: str | None
) -> ContainerBuilder:
    """Look at the base that the plan is to be built on; pull it if it is not here."""
    docker = docker_folder(data)
    base = base_for(plan, wanted, read_bases(docker / "images.toml"))
    looked = look(engine, base)
    locks = (*(data.locks / name for name in plan.locks), docker / f"{CONTAINER_TOOLS}.txt")
    return ContainerBuilder(
        engine=engine,
        base=base,
        looked=looked,
        docker=docker,
        image=image_name(looked, docker / "Dockerfile", locks),
        locks=locks,
        mounts=Mounts(tree=tree(plan.source), cache=cache_folder(os.environ)),
    )


def warnings(plan: Plan, builder: ContainerBuilder) -> Iterator[str]:
    """What may end in a refusal, or in bytes that differ tomorrow."""
    base, host = builder.base, plan.host
    if base.digest is None:
        yield f"base {base.image} is not pinned by digest: it may be another image tomorrow"
    if base.glibc and numeric(base.glibc) > numeric(host.glibc):
        yield f"base {base.name} has glibc {base.glibc}, host {host.name} has {host.glibc}"
    for newer in newer_than_host(builder.engine, base, host):
        yield f"base {base.name} is newer than the host: {newer}; the wheel may be refused"


def cache_folder(ours: Mapping[str, str]) -> Path:
    """Where sccache keeps its objects on this machine, so that both engines share them."""
    base = Path(ours.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(ours.get("SCCACHE_DIR") or base / "sccache").absolute()


def run_cibuildwheel(
    project: Path, config: Path, stage: Path, log: Path, costs: Mapping[str, float], count: int
) -> None:
    """cibuildwheel with our configuration and nobody else's. Refused where the wheel is wrong."""
    argv = (
        *(sys.executable, "-m", "cibuildwheel", "--platform", "linux"),
        *("--config-file", str(config), "--output-dir", str(stage), str(project)),
    )
    try:
        compile_all(argv, outer_environment(os.environ), log, costs, count, cwd=project)
    except StepFailed as error:
        raise refused(log.read_text(errors="replace"), error) from None


def outer_environment(ours: Mapping[str, str]) -> dict[str, str]:
    """For cibuildwheel itself: the user's, without settings of other builds."""
    return {
        name: value
        for name, value in ours.items()
        if not name.startswith("CIBW_") and name != "SOURCE_DATE_EPOCH"
    }


def refused(said: str, error: StepFailed) -> Exception:
    lines = [line for line in said.splitlines() if TOO_NEW in line or NOT_FOUND in line]
    if not lines:
        return error
    reason = (
        "needs newer symbols than its platform tag allows"
        if TOO_NEW in lines[-1]
        else ("needs a library that is neither its own, nor a requirement's, nor the system's")
    )
    return Refused(
        f"the wheel {reason}: take an older base, or a host with newer floors\n    {lines[-1]}"
    )


def check_no_graft(wheel: Path) -> None:
    """Refuse what a repair has copied in: a second copy of ours, libgomp, any other library."""
    grafted = [name for name in wheel_members(wheel) if ".libs/" in name and not name.endswith("/")]
    if grafted:
        found = ", ".join(grafted)
        raise Refused(f"{wheel.name}: the repair put in {found}; nothing may be linked from there")


def counts(mounts: Mounts, plan: Plan) -> dict[str, int]:
    inside = build_folder(plan).relative_to(tree(plan.source))
    return cache_stats(json.loads((mounts.tree / inside / COUNTS).read_text()))


@contextmanager
def ending_containers(engine: ContainerEngine) -> Iterator[None]:
    """However it ends, no container of ours is left: the engine's daemon does not die with us."""
    try:
        yield
    finally:
        remove_leftovers(engine)


def remove_leftovers(engine: ContainerEngine) -> None:
    """Remove every container that builds below our root; whoever calls holds its lock."""
    wanted = ("--all", "--quiet", "--filter", f"label={LABEL}={ROOT}")
    found = subprocess.run((engine.name, "ps", *wanted), capture_output=True, text=True)
    if names := found.stdout.split():
        subprocess.run((engine.name, "rm", "--force", "--volumes", *names), capture_output=True)
