"""Recipe → Plan: everything resolved, nothing left to a default of CMake, ggml or the machine."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostwheel import __version__
from hostwheel.errors import BadInput
from hostwheel.facts import isa
from hostwheel.facts.cuda import TOOLKITS, Toolkit, machine_code_for
from hostwheel.facts.host import Host
from hostwheel.plan.defines import ROOT, TOOLS, defines, libraries, toolkit_root, tree
from hostwheel.plan.recipe import Recipe, Source

# Variables that the build takes from the user's environment. None may change the bytes.
PASSED_THROUGH = (
    *("HOME", "XDG_CACHE_HOME"),  # where sccache keeps its cache
    "SCCACHE_*",
    "AWS_*",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cuda:
    """`architecture` is that of the machine code ("86", "120a"); there is no PTX."""

    release: str
    toolkit: str
    architecture: str
    driver: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuBackend:
    """A CMake target of ggml's CPU code: options that are ON, their flags, what they compile in."""

    name: str
    options: tuple[str, ...]
    flags: tuple[str, ...]
    features: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """Where and in which environment the build runs. Not part of the plan's hash.

    `base` is what `image` was made from, by digest or as the engine's own id.
    """

    name: str
    image: str | None
    base: str | None
    environment: Mapping[str, str]
    passed_through: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What will be built, to the last option. `patches` and `locks` are name → sha256.

    `features` are those that every part of the build needs: what the guard asks for.
    """

    builder: str
    recipe: str
    draft: bool
    host: Host
    source: Source
    patches: Mapping[str, str]
    locks: Mapping[str, str]
    backends: tuple[CpuBackend, ...]
    features: tuple[str, ...]
    cuda: Cuda | None
    defines: Mapping[str, str]
    libraries: tuple[str, ...]
    tools: tuple[str, ...]
    label: str
    version: str
    platform_tag: str
    requires: tuple[str, ...]
    wheel: str
    archive: str
    engine: Engine

    @property
    def hash(self) -> str:
        """sha256 of everything but the engine: equal plans give equal content on every engine."""
        return plan_hash(plain(self))

    @property
    def runpath(self) -> tuple[str, ...]:
        return tuple(self.defines["HOSTWHEEL_RUNPATH"].split(";"))

    @property
    def backend_files(self) -> Mapping[str, CpuBackend]:
        """The CPU backends by the names of their files."""
        return {f"lib{backend.name}.so": backend for backend in self.backends}

    @property
    def native_members(self) -> frozenset[str]:
        """Libraries, programs and their scripts, by their names in the wheel."""
        return frozenset(
            (
                *(f"llama_cpp/lib/lib{library}.so" for library in self.libraries),
                *(f"llama_cpp/lib/{tool}" for tool in self.tools),
                *(f"llama_cpp_python-{self.version}.data/scripts/{tool}" for tool in self.tools),
            )
        )

    def json(self) -> dict[str, Any]:
        return {"schema": 1, "hash": self.hash, **plain(self)}


def plan_hash(plan: Mapping[str, Any]) -> str:
    """The hash of a plan as JSON has it. What names the hash does not count, nor the engine."""
    hashed = {key: plan[key] for key in plan if key not in ("engine", "schema", "hash")}
    return hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest()


def plain(value: Any) -> Any:
    """Dataclasses, mappings and tuples as JSON has them."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return value


def make_plan(recipe: Recipe, patches: Mapping[str, str], locks: Mapping[str, str]) -> Plan:
    """Pure: the same recipe, patches and locked tools give the same plan on every machine."""
    source, host = recipe.source, recipe.host
    options = () if recipe.variants else isa.usable_options(host.cpu.features)
    toolkit = TOOLKITS[recipe.cuda] if recipe.cuda else None
    label = ".".join(label_parts(recipe, toolkit, options))
    version = f"{source.version}+{label}"
    platform_tag = f"manylinux_{host.glibc.replace('.', '_')}_x86_64"
    return Plan(
        builder=f"hostwheel {__version__}",
        recipe=recipe.name,
        draft=recipe.draft,
        host=host,
        source=source,
        patches=patches,
        locks={name: lock(name, locks) for name in lock_files(recipe)},
        backends=cpu_backends(recipe, options),
        features=isa.compiled_in(options),
        cuda=plan_cuda(recipe, toolkit),
        defines=defines(recipe, toolkit, options),
        libraries=libraries(recipe, toolkit),
        tools=TOOLS,
        label=label,
        version=version,
        platform_tag=platform_tag,
        requires=toolkit.requires if toolkit else (),
        wheel=f"llama_cpp_python-{version}-py3-none-{platform_tag}.whl",
        archive=f"llama-server-{source.version}-{label}-linux-x86_64.tar.gz",
        engine=local_engine(recipe, toolkit),
    )


def lock_files(recipe: Recipe) -> tuple[str, ...]:
    """The lock files of the tools that this recipe is built with."""
    packaged = recipe.cuda is not None and TOOLKITS[recipe.cuda].packaged
    return ("build-tools.txt", *((f"cuda-{recipe.cuda}.txt",) if packaged else ()))


def lock(name: str, locks: Mapping[str, str]) -> str:
    if name not in locks:
        found = ", ".join(locks) or "none"
        raise BadInput(f"no {name} in the locks/ of the recipes folder (found: {found}); add it")
    return locks[name]


def label_parts(
    recipe: Recipe, toolkit: Toolkit | None, options: tuple[isa.Option, ...]
) -> tuple[str, ...]:
    gpu = recipe.host.gpu
    processor = (
        (toolkit.label, "sm" + machine_code_for(gpu.compute)) if toolkit and gpu else ("cpu",)
    )
    level = ("any",) if recipe.variants else isa.isa_label(options)
    return (*processor, *level, *(("draft",) if recipe.draft else ()))


def cpu_backends(recipe: Recipe, options: tuple[isa.Option, ...]) -> tuple[CpuBackend, ...]:
    if not recipe.variants:
        return (cpu_backend("ggml-cpu", options),)
    return tuple(cpu_backend(f"ggml-cpu-{tag}", isa.variant_options(tag)) for tag in isa.VARIANTS)


def cpu_backend(name: str, options: tuple[isa.Option, ...]) -> CpuBackend:
    return CpuBackend(
        name=name,
        options=tuple(option.name for option in options),
        flags=tuple(flag for option in options for flag in option.flags),
        features=isa.compiled_in(options),
    )


def plan_cuda(recipe: Recipe, toolkit: Toolkit | None) -> Cuda | None:
    if toolkit is None or recipe.host.gpu is None:
        return None
    return Cuda(
        release=toolkit.release,
        toolkit=toolkit.version,
        architecture=machine_code_for(recipe.host.gpu.compute),
        driver=toolkit.driver,
    )


def local_engine(recipe: Recipe, toolkit: Toolkit | None) -> Engine:
    """This machine's g++, and tools and toolkit from the registry. Nothing else is on the PATH."""
    build_tools = ROOT / "build-tools"
    return Engine(
        name="local",
        image=None,
        base=None,
        environment={
            "PATH": f"{build_tools / 'bin'}:/usr/bin:/bin",
            "PYTHONPATH": str(build_tools),
            "PYTHONHASHSEED": "0",
            "PYTHONNOUSERSITE": "1",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "SOURCE_DATE_EPOCH": str(recipe.source.epoch),
            "GIT_CEILING_DIRECTORIES": str(ROOT),
            "SCCACHE_BASEDIRS": str(
                tree(recipe.source) / "build" / recipe.name
            ),  # shared by recipes
            "CC": "/usr/bin/gcc",
            "CXX": "/usr/bin/g++",
            **(cuda_environment(toolkit_root(toolkit.version)) if toolkit else {}),
        },
        passed_through=PASSED_THROUGH,
    )


def cuda_environment(root: Path) -> Mapping[str, str]:
    return {
        "CUDACXX": str(root / "bin" / "nvcc"),
        "CUDAHOSTCXX": "/usr/bin/g++",
        "CUDAToolkit_ROOT": str(root),
    }
