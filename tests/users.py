"""Machines, catalogs and buckets for the tests of capture, doctor and pick."""

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from hostwheel.facts.cpuid import FEATURES, KERNEL_NAMES
from hostwheel.facts.host import Cpu, Gpu, Host
from hostwheel.plan.recipe import read_host
from hostwheel.publish.catalog import Catalog, Entry, Needs
from hostwheel.user import capture_gpu
from hostwheel.user.capture_gpu import Graphics
from hostwheel.user.capture_limits import Limits
from hostwheel.user.capture_machine import Machine, usable
from hostwheel.user.doctor import Case
from hostwheel.user.doctor_build import Build
from hostwheel.user.doctor_site import Copy, Site
from hostwheel.user.findings import machine_code
from hostwheel.user.pick import Picked
from tests.audits import pack
from tests.plans import ROOT, plan_for

CPUS = Path(__file__).parent / "data" / "cpus"
CPU_NAMES = tuple(sorted(path.name for path in CPUS.iterdir() if not path.suffix))
RECIPES = tuple(
    sorted(each.stem for each in (ROOT / "recipes").glob("*.toml") if each.stem != "upstream")
)
A10G = capture_gpu.Gpu("NVIDIA A10G", "86", 24 << 30)
T4 = capture_gpu.Gpu("Tesla T4", "75", 16 << 30)
NO_GPU = Graphics(None, (), "libnvidia-ml.so.1 not found")


def recorded(cpu: str) -> tuple[str, tuple[str, ...]]:
    """Model name and features of a real CPU, as tests/data/cpus has them."""
    model, flags = (CPUS / cpu).read_text().splitlines()
    named = {KERNEL_NAMES.get(flag, flag) for flag in flags.partition(": ")[2].split()}
    return model.partition(": ")[2], usable(named & set(FEATURES))


def machine(cpu: str = "zen2", *gpus: capture_gpu.Gpu, driver: str = "580.95.05") -> Machine:
    """A recorded CPU in a machine with Ubuntu 22.04."""
    brand, features = recorded(cpu)
    return Machine(
        brand=brand,
        features=features,
        glibc="2.35",
        glibcxx="3.4.30",
        python="3.11.7",
        graphics=Graphics(driver, gpus, "") if gpus else NO_GPU,
        limits=Limits(cpus=8, quota=None, memory=32 << 30, memory_limit=None),
    )


def read_back(text: str, folder: Path) -> Host:
    """The host that a captured text is, as a host file of that folder."""
    file = folder / "captured.toml"
    file.write_text(text, encoding="utf-8")
    return replace(read_host(file), name="this machine")


def host(cpu: str, gpu: Gpu | None = None) -> Host:
    brand, features = recorded(cpu)
    return Host(
        name=cpu,
        title=brand,
        cpu=Cpu(microarchitecture=cpu, features=features),
        gpu=gpu,
        glibc="2.35",
        glibcxx="3.4.30",
    )


def gpu(compute: str, driver: str = "580.95.05") -> Gpu:
    return Gpu(name=f"card {compute}", compute=compute, driver=driver)


def entry(recipe: str, *, version: str = "0.3.36", **changes: Any) -> Entry:
    """A recipe's wheel as the catalog has it: what the plan says, with a made-up hash."""
    plan = plan_for(recipe)
    cuda = plan.cuda
    full = f"{version}+{plan.label}"
    filename = f"llama_cpp_python-{full}-py3-none-{plan.platform_tag}.whl"
    made = Entry(
        kind="wheel",
        recipe=recipe,
        title=plan.host.title,
        filename=filename,
        sha256=hashlib.sha256(filename.encode()).hexdigest(),
        size=36_000_000,
        uploaded="2026-11-30T10:00:00Z",
        version=full,
        platform_tag=plan.platform_tag,
        requires_python=">=3.8",
        requires=plan.requires,
        metadata="0" * 64,
        needs=Needs(
            features=plan.features,
            cuda=cuda.release if cuda else None,
            architecture=cuda.architecture if cuda else None,
            driver=cuda.driver if cuda else None,
            glibc="2.34",
            glibcxx="3.4.30",
        ),
        evidence={},
    )
    return replace(made, **changes)


def needing(made: Entry, **changes: Any) -> Entry:
    return replace(made, needs=replace(made.needs, **changes))


def catalog(*entries: Entry) -> Catalog:
    """Of these; without any, of every recipe of the README's table."""
    return Catalog().next(entries or map(entry, RECIPES))


def recipe(picked: Picked) -> str | None:
    return picked.best.recipe if picked.best else None


def reason(picked: Picked, recipe: str) -> str:
    (found,) = (each.reason for each in picked.others if each.entry.recipe == recipe)
    return found


def small_wheel(folder: Path, version: str = "0.3.36+cpu.avx2") -> Path:
    """A wheel of llama-cpp-python's name that needs nothing and says its version."""
    tag = "py3-none-manylinux_2_35_x86_64"
    info = f"llama_cpp_python-{version}.dist-info"
    head = "Metadata-Version: 2.1\nName: llama_cpp_python\nRequires-Python: >=3.8\n"
    files = {
        "llama_cpp/__init__.py": f"__version__ = {version!r}\n".encode(),
        f"{info}/METADATA": f"{head}Version: {version}\n".encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
    }
    return pack(folder / f"llama_cpp_python-{version}-{tag}.whl", files)


def bucket(folder: Path, wheels: Iterable[Path]) -> Path:
    """A published folder of these wheels, each for the recipe cpu-avx2 at its version."""
    entries = []
    for wheel in wheels:
        content = wheel.read_bytes()
        made = entry(
            "cpu-avx2",
            version=wheel.name.split("-")[1].split("+")[0],
            sha256=hashlib.sha256(content).hexdigest(),
            size=len(content),
        )
        made = needing(made, features=(), glibc="2.17", glibcxx="0")
        path = folder / made.key
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
        entries.append(made)
    (folder / "catalog.json").write_text(Catalog().next(entries).json())
    return folder


def build(recipe: str = "a10g", **changes: Any) -> Build:
    """Our build of a recipe, as the doctor reads it from an installed package."""
    made = entry(recipe)
    needs = made.needs
    whole = Build(
        name=f"llama_cpp_python {made.version}",
        where=Path("/site/llama_cpp"),
        ours=True,
        needs=needs,
        lacking=(),
        undecided=(),
        images=(machine_code(needs.architecture),) if needs.architecture else (),
        cuda=(),
        openmp=(),
        lost=(),
        tags=(),
    )
    return replace(whole, **changes)


def site(**changes: Any) -> Site:
    """An environment with nothing in it but the one copy."""
    empty = Site(folders=(), copies=(), loader=(), cache={}, openmp=(), visible=None)
    return replace(empty, **changes)


def copy(folder: str = "/site/llama_cpp", *owners: str) -> Copy:
    return Copy(folder=Path(folder), owners=owners or ("llama_cpp_python 0.3.36",))


def case(on: Machine, of: Build, **changes: Any) -> Case:
    whole = Case(machine=on, build=of, site=site(), copy=copy(), python="3.11.7")
    return replace(whole, **changes)
