"""Plan → wheel, archive, symbol maps and build.json. The whole build, in order, in `build`."""

import os
import shutil
from pathlib import Path
from typing import Protocol

from hostwheel.build.archive import write_archive
from hostwheel.build.audited import check_audit
from hostwheel.build.clock import Clock
from hostwheel.build.cmake import Configured, check_configured, read_configured
from hostwheel.build.engine import build_wheel, configure
from hostwheel.build.evidence import Compiled, Machine, record, write_json, write_symbols
from hostwheel.build.folders import put, sibling, writing
from hostwheel.build.lock import locked
from hostwheel.build.product import Product, check_product, unpack_wheel
from hostwheel.build.project import build_folder, project_folder, write_project
from hostwheel.build.sbom import Compilers
from hostwheel.build.source import Prepared, fetch, prepare
from hostwheel.build.steps import read_steps
from hostwheel.build.toolchain import (
    Compiler,
    check_host_compiler,
    compiler_for,
    cuda_toolkit,
    install_locked,
)
from hostwheel.errors import MachineLacks
from hostwheel.facts.cuda import TOOLKITS
from hostwheel.plan.data import Data
from hostwheel.plan.defines import ROOT, toolkit_root, tree
from hostwheel.plan.patches import patches_for
from hostwheel.plan.plan import Plan


class Builder(Protocol):
    """Where a plan is built: on this machine, or in a container.

    `objects` names what compiles there: objects of another one are not gone on with.
    """

    @property
    def objects(self) -> str: ...
    def compiler(self, plan: Plan) -> Compiler: ...
    def planned(self, plan: Plan) -> Plan: ...
    def tools(self, plan: Plan, data: Data, compiler: Compiler) -> Machine: ...
    def configure(self, plan: Plan, project: Path, log: Path) -> None: ...
    def build_wheel(
        self, plan: Plan, project: Path, stage: Path, log: Path
    ) -> tuple[Path, dict[str, int]]: ...


class Local:
    """This machine's g++."""

    objects = "local"

    def compiler(self, plan: Plan) -> Compiler:
        if plan.cuda:
            check_packaged(plan.cuda.release)
        return compiler_for(plan)

    def planned(self, plan: Plan) -> Plan:
        return plan

    def tools(self, plan: Plan, data: Data, compiler: Compiler) -> Machine:
        return prepare_tools(plan, data, compiler)

    def configure(self, plan: Plan, project: Path, log: Path) -> None:
        configure(plan, project, log)

    def build_wheel(
        self, plan: Plan, project: Path, stage: Path, log: Path
    ) -> tuple[Path, dict[str, int]]:
        return build_wheel(plan, project, stage, log)


LOCAL = Local()


def build(
    plan: Plan, data: Data, out: Path, *, archive: Path | None = None, builder: Builder = LOCAL
) -> Path:
    """Build `plan` and put the product into `out`; return the wheel's path there.

    `archive` is a local copy of the source archive. What `out` held before is replaced at the
    end, and only by a product that passed every check.
    """
    clock = Clock()
    compiler = builder.compiler(plan)
    plan = builder.planned(plan)
    with locked(ROOT, plan.recipe):
        with clock.step("source"):
            prepared = prepare_source(plan, data, archive)
        with clock.step("tools"):
            machine = builder.tools(plan, data, compiler)
        with clock.step("compile"):
            compiled = compile_wheel(plan, prepared, machine, fresh_log(out), builder)
        with clock.step("check"):
            product = checked(plan, compiled)
        with clock.step("package"):
            return finish(plan, machine, compiled, product, clock, out)


def fresh_log(out: Path) -> Path:
    """The log's path. What comes before it leaves no trace in `out`."""
    log = out / "build.log"
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        log.unlink(missing_ok=True)
    return log


def prepare_source(plan: Plan, data: Data, archive: Path | None) -> Prepared:
    fetched = fetch(plan.source.url, plan.source.sha256, cache_folder(), given=archive)
    upstream = f"llama-cpp-python {plan.source.version}"
    patches = patches_for(data.patches, plan.source.version)
    return prepare(fetched, patches, tree(plan.source), upstream=upstream)


def cache_folder() -> Path:
    """Where downloads stay between builds: `$XDG_CACHE_HOME/hostwheel` or `~/.cache/hostwheel`."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "hostwheel"


def prepare_tools(plan: Plan, data: Data, compiler: Compiler) -> Machine:
    install_locked(data.locks / "build-tools.txt", ROOT / "build-tools")
    toolkit = None
    if plan.cuda:
        lock = data.locks / f"cuda-{plan.cuda.release}.txt"
        toolkit = cuda_toolkit(lock, toolkit_root(plan.cuda.toolkit))
        check_host_compiler(compiler, toolkit)
    return Machine(compiler=compiler, toolkit=toolkit)


def check_packaged(release: str) -> None:
    if not TOOLKITS[release].packaged:
        raise MachineLacks(
            f"the registry has no nvcc of CUDA {release}: it is part of a base image, "
            "so build with --engine docker or --engine podman"
        )


def compilers(machine: Machine) -> Compilers:
    packages = machine.toolkit.packages if machine.toolkit else {}
    return Compilers(gcc=machine.compiler.version_text, cuda=packages)


def compile_wheel(
    plan: Plan, prepared: Prepared, machine: Machine, log: Path, builder: Builder
) -> Compiled:
    project = project_folder(plan)
    stage = sibling(project, "stage")
    with writing(stage):
        stage.mkdir(parents=True)
        since_ns = stage.stat().st_mtime_ns
        write_project(plan, prepared.src, project, compilers(machine))
    with writing(log.parent):
        own_build_folder(build_folder(plan), builder.objects)
        builder.configure(plan, project, log)
        check_configured(plan, configured(plan, log))
        wheel, cache = builder.build_wheel(plan, project, stage, log)
    return Compiled(
        wheel=wheel,
        configured=configured(plan, log),
        cache=cache,
        steps=read_steps(build_folder(plan), since_ns=since_ns),
    )


def own_build_folder(folder: Path, objects: str) -> None:
    """Have no objects of another compiler there, and no CMake cache.

    Engines share the path, and ninja does not notice that the compiler behind it has changed.
    CMake names an unused variable only when that is new to its cache.
    """
    stamp = folder / "compiled-by"
    if folder.exists() and (stamp.read_text() if stamp.is_file() else LOCAL.objects) != objects:
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    stamp.write_text(objects)
    (folder / "CMakeCache.txt").unlink(missing_ok=True)


def configured(plan: Plan, log: Path) -> Configured:
    said = log.read_text(encoding="utf-8", errors="replace")
    return read_configured(build_folder(plan), said)


def checked(plan: Plan, compiled: Compiled) -> Product:
    """PLAN001, PLAN002, the finished files against the plan, and the audit of the wheel."""
    check_configured(plan, compiled.configured)
    stage = compiled.wheel.parent
    with writing(stage):
        product = unpack_wheel(compiled.wheel, stage / "unpacked", stage / "symbols")
        write_symbols(product, build_folder(plan) / "bin")
    check_product(plan, product)
    check_audit(plan, product)
    return product


def finish(
    plan: Plan,
    machine: Machine,
    compiled: Compiled,
    product: Product,
    clock: Clock,
    out: Path,
) -> Path:
    """Everything into a fresh folder, then swapped in; build.json last."""
    fresh = sibling(out / "product", "new")
    dist, symbols, evidence = fresh / "dist", fresh / "symbols", fresh / "build.json"
    try:
        with writing(fresh):
            dist.mkdir(parents=True)
            shutil.copyfile(compiled.wheel, dist / plan.wheel)
            write_archive(plan, product.root, dist / plan.archive)
            symbols.mkdir()
            for symbol_map in product.symbols.iterdir():  # copytree's own errors do not say why
                shutil.copyfile(symbol_map, symbols / symbol_map.name)
            write_json(evidence, record(plan, machine, compiled, clock, dist))
            put(symbols, out / "symbols")
            put(dist, out / "dist")
            evidence.replace(out / "build.json")
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    shutil.rmtree(compiled.wheel.parent)
    return out / "dist" / plan.wheel
