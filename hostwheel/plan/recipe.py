"""TOML → Recipe, Host, Source. Nothing is guessed; what is wrong is named with what would fit."""

import re
from dataclasses import dataclass
from pathlib import Path

from hostwheel.errors import BadInput
from hostwheel.facts import cpuid, isa
from hostwheel.facts.cuda import TOOLKITS
from hostwheel.facts.host import Cpu, Gpu, Host
from hostwheel.facts.versions import numeric
from hostwheel.plan.files import listed
from hostwheel.plan.table import Table, near, read_table

RECIPE_KEYS = ("host", "cuda", "source", "variants", "everything", "draft")
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
VERSION = r"\d+(\.\d+)+"
RELEASE = r"(0|[1-9]\d*)(\.(0|[1-9]\d*))+"
EARLIEST, LATEST = 315_532_800, 4_102_444_800  # 1980, where zip begins, to 2100


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """One pinned archive of llama-cpp-python. `epoch` (Unix seconds) dates what is made of it."""

    version: str
    url: str
    sha256: str
    llama_cpp_commit: str
    epoch: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """What to build for which host.

    `cuda` is a toolkit release ("13.0") or None for a CPU build. `variants` builds every CPU
    variant of ggml, the best of which is taken when the program starts. `everything` compiles
    as upstream does, file by file, GPU kernels included that the host cannot reach. `draft`
    leaves out FlashAttention and device-code optimisation: for tests, never to be shipped.
    """

    name: str
    host: Host
    source: Source
    cuda: str | None
    variants: bool
    everything: bool
    draft: bool


def recipe_names(recipes: Path) -> tuple[str, ...]:
    names = (file.stem for file in listed(recipes, "*.toml"))
    return tuple(sorted(name for name in names if name != "upstream"))


def checked_name(file: Path) -> str:
    """The name of a recipe or host: its file's. It becomes part of paths and CMake variables."""
    if re.fullmatch(NAME, file.stem):
        return file.stem
    hint = "letters, digits and . _ - , beginning with a letter or digit, 64 at most"
    raise BadInput(f"{str(file)!r}: cannot be named {file.stem!r}; rename the file: {hint}")


def load_recipe(wanted: str, recipes: Path) -> Recipe:
    """`wanted` is the name of a recipe, or a TOML file (anything that ends in .toml)."""
    file = recipe_file(wanted, recipes)
    name = checked_name(file)
    table = read_table(file).knows(*RECIPE_KEYS)
    cuda = table.get("cuda", str)
    if cuda is not None and cuda not in TOOLKITS:
        raise table.wrong("cuda", f"is {cuda!r}", near(cuda, TOOLKITS))
    host = load_host(table, recipes)
    recipe = Recipe(
        name=name,
        host=host,
        source=load_source(table, recipes),
        cuda=cuda,
        variants=table.get("variants", bool) or False,
        everything=table.get("everything", bool) or False,
        draft=table.get("draft", bool) or False,
    )
    check_flags(recipe, table)
    check_gpu(recipe, table)
    return recipe


def recipe_file(wanted: str, recipes: Path) -> Path:
    if wanted.endswith(".toml"):
        return Path(wanted)
    names = recipe_names(recipes)
    if wanted not in names:
        raise BadInput(f"no recipe {wanted!r} in {recipes}; {near(wanted, names)}")
    return recipes / f"{wanted}.toml"


def load_host(recipe: Table, recipes: Path) -> Host:
    name = recipe.need("host", str)
    hosts = recipes / "hosts"
    names = [file.stem for file in listed(hosts, "*.toml")]
    if name not in names:
        raise recipe.wrong("host", f"is {name!r}, which is not in {hosts}", near(name, names))
    return read_host(hosts / f"{name}.toml")


def read_host(file: Path) -> Host:
    """A host file, as `recipes/hosts/` holds them."""
    name = checked_name(file)
    table = read_table(file).knows("title", "cpu", "gpu", "os")
    system = table.table("os").knows("glibc", "glibcxx")
    return Host(
        name=name,
        title=table.line("title"),
        cpu=read_cpu(table.table("cpu").knows("microarchitecture", "features", "emulate")),
        gpu=read_gpu(table.table("gpu")) if "gpu" in table.values else None,
        glibc=system.matching("glibc", r"2\.\d+", "2.35"),
        glibcxx=system.matching("glibcxx", r"3\.4\.\d+", "3.4.30"),
    )


def read_cpu(table: Table) -> Cpu:
    features = table.strings("features")
    for feature in features:
        if features.count(feature) > 1:
            raise table.wrong("features", f"has {feature!r} twice", "name it once")
        if feature not in cpuid.FEATURES:
            hint = near(feature, cpuid.FEATURES)
            raise table.wrong("features", f"has {feature!r}, which is no known feature", hint)
    for feature, needed in isa.missing_prerequisites(features):
        hint = f"add {needed!r}, or leave {feature!r} out"
        raise table.wrong("features", f"has {feature!r} without {needed!r}", hint)
    return Cpu(
        microarchitecture=table.line("microarchitecture"),
        features=features,
        emulate=table.get("emulate", str),
    )


def read_gpu(table: Table) -> Gpu:
    table.knows("name", "compute", "driver")
    return Gpu(
        name=table.line("name"),
        compute=table.matching("compute", r"\d{2,3}", "86"),
        driver=table.matching("driver", VERSION, "580.65.06"),
    )


def load_source(recipe: Table, recipes: Path) -> Source:
    upstream = read_table(recipes / "upstream.toml").knows("default", "source")
    pinned = upstream.table("source")
    version = recipe.get("source", str) or upstream.need("default", str)
    if version not in pinned.values:
        raise recipe.wrong(
            "source",
            f"is {version!r}, which {upstream.file} does not pin",
            near(version, pinned.values),
        )
    if not re.fullmatch(RELEASE, version, re.ASCII):
        raise pinned.wrong(version, "is no release", "expected a version like 0.3.36")
    table = pinned.table(version).knows("url", "sha256", "llama_cpp_commit", "epoch")
    return Source(
        version=version,
        url=table.matching(
            "url", r"(https|file)://.+\.tar\.gz", "https://…/llama_cpp_python-….tar.gz"
        ),
        sha256=table.matching("sha256", r"[0-9a-f]{64}", "64 hexadecimal digits"),
        llama_cpp_commit=table.matching("llama_cpp_commit", r"[0-9a-f]{7,40}", "0c1e57098bba"),
        epoch=table.between("epoch", EARLIEST, LATEST, "Unix seconds of 1980 to 2100"),
    )


def check_flags(recipe: Recipe, table: Table) -> None:
    """Flags that would mean nothing, or not what they say."""
    if recipe.variants and recipe.cuda is not None:
        hint = "a CUDA build is for one host; leave one of the two out"
        raise table.wrong("variants", "and cuda are both set", hint)
    if recipe.draft and recipe.cuda is None:
        hint = "a draft leaves out GPU code only; leave draft out"
        raise table.wrong("draft", "is true without cuda", hint)
    if recipe.variants and recipe.host.cpu.features:
        found = f"is true, but host {recipe.host.name!r} has CPU features"
        raise table.wrong("variants", found, "variants serve any x86-64 CPU: take host 'x86-64'")


def check_gpu(recipe: Recipe, table: Table) -> None:
    """A CUDA recipe needs a host whose GPU and driver the toolkit serves."""
    if recipe.cuda is None:
        return
    toolkit = TOOLKITS[recipe.cuda]
    host, gpu = recipe.host, recipe.host.gpu
    if gpu is None:
        hint = "take a host with a [gpu] table, or leave cuda out"
        raise table.wrong("cuda", f"is {recipe.cuda!r}, but host {host.name!r} has no GPU", hint)
    if gpu.compute not in toolkit.compute:
        found = f"is {recipe.cuda!r}, which has no sm_{gpu.compute} (host {host.name!r})"
        nearest = min(toolkit.compute, key=lambda sm: abs(int(sm) - int(gpu.compute)))
        raise table.wrong("cuda", found, f"the nearest that it has is sm_{nearest}")
    if numeric(gpu.driver) < numeric(toolkit.driver):
        found = f"is {recipe.cuda!r}, but host {host.name!r} has driver {gpu.driver}"
        raise table.wrong("cuda", found, f"this toolkit needs {toolkit.driver} or newer")
