"""The finished wheel, held against the plan: nothing is taken from what was asked for."""

import json
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from packaging.requirements import Requirement

from hostwheel.artifact.binary import Binary, read_binary
from hostwheel.artifact.contents import sha256
from hostwheel.artifact.fatbin import read_fatbin
from hostwheel.artifact.magic import is_elf
from hostwheel.artifact.native import read_code
from hostwheel.build.project import SBOM, cuda_libraries
from hostwheel.errors import Refused
from hostwheel.facts import isa
from hostwheel.facts.dispatched import is_dispatched
from hostwheel.facts.inside import BUILD_INFO
from hostwheel.facts.isa import beyond
from hostwheel.facts.policy import EVERYWHERE
from hostwheel.facts.versions import numeric
from hostwheel.plan.plan import Plan


@dataclass(frozen=True, kw_only=True, slots=True)
class Product:
    """An unpacked wheel. `members` is name → sha256 of everything in it; `symbols` is the folder
    of its symbol maps."""

    wheel: Path
    root: Path
    symbols: Path
    members: Mapping[str, str]
    metadata: Mapping[str, list[str]]
    tags: tuple[str, ...]

    def elf_files(self) -> tuple[Path, ...]:
        return tuple(path for name in self.members if is_elf(path := self.root / name))


def unpack_wheel(wheel: Path, root: Path, symbols: Path) -> Product:
    """Unpack our own, just built wheel into `root`; its symbol maps come to `symbols`."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(root)
        names = [info.filename for info in archive.infolist() if not info.is_dir()]
    info = next(root.glob("*.dist-info"), None)
    if info is None:
        raise Refused(f"{wheel.name} has no dist-info folder, so it is no wheel")
    return Product(
        wheel=wheel,
        root=root,
        symbols=symbols,
        members={name: sha256(root / name) for name in names},
        metadata=headers(info / "METADATA"),
        tags=tuple(headers(info / "WHEEL")["Tag"]),
    )


def wheel_members(wheel: Path) -> tuple[str, ...]:
    with zipfile.ZipFile(wheel) as archive:
        return tuple(archive.namelist())


def headers(file: Path) -> Mapping[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for key, value in HeaderParser().parsestr(file.read_text(encoding="utf-8")).items():
        found[key].append(value)
    return found


def check_product(plan: Plan, product: Product) -> None:
    """Raise Refused with every difference between the files and the plan."""
    binaries = {path.name: read_binary(path) for path in product.elf_files()}
    problems = [
        *names(plan, product),
        *members(plan, product),
        *told(plan, product),
        *libraries(plan, binaries),
        *instructions(plan, product),
        *machine_code(plan, product),
    ]
    if problems:
        found = "\n  ".join(problems)
        raise Refused(f"{product.wheel.name} is not what the plan says:\n  {found}")


def names(plan: Plan, product: Product) -> Iterator[str]:
    """File name, METADATA, dist-info and tag say the same version and platform."""
    version = product.metadata["Version"]
    if product.wheel.name != plan.wheel:
        yield f"the file is named {product.wheel.name}, planned is {plan.wheel}"
    if version != [plan.version]:
        yield f"METADATA has version {version}, planned is {plan.version}"
    if product.tags != (f"py3-none-{plan.platform_tag}",):
        yield f"WHEEL has tags {product.tags}, planned is py3-none-{plan.platform_tag}"
    required = {Requirement(line) for line in product.metadata["Requires-Dist"]}
    planned = {Requirement(line) for line in plan.requires}
    for missing in planned - required:
        yield f"METADATA does not require {missing}"
    for extra in required - planned:
        if extra.name.startswith("nvidia-"):
            yield f"METADATA requires {extra}, which is not planned"


def members(plan: Plan, product: Product) -> Iterator[str]:
    """Every planned program, library and record once, Python, dist-info, and nothing else."""
    base = f"llama_cpp_python-{plan.version}"
    planned = {*plan.native_members, BUILD_INFO, f"{base}.dist-info/{SBOM}"}
    for name in sorted(planned - product.members.keys()):
        yield f"{name} is missing"
    for name in sorted(product.members.keys() - planned):
        if not name.startswith(f"{base}.dist-info/") and not is_python(name):
            yield f"{name} does not belong into the wheel"
    yield from twins(product)


def is_python(name: str) -> bool:
    return name.startswith("llama_cpp/") and name.endswith((".py", "/py.typed"))


def told(plan: Plan, product: Product) -> Iterator[str]:
    """build-info.json speaks of this plan and of the SBOM that lies in the wheel."""
    bill = product.members.get(f"llama_cpp_python-{plan.version}.dist-info/{SBOM}")
    if bill is None or BUILD_INFO not in product.members:
        return  # `members` says so
    info = json.loads((product.root / BUILD_INFO).read_text(encoding="utf-8"))
    said = {"plan": info["plan_hash"], "SBOM": info["sbom"]["sha256"]}
    for name, actual in {"plan": plan.hash, "SBOM": bill}.items():
        if said[name] != actual:
            yield f"{BUILD_INFO} says {name} {said[name]}, it is {actual}"


def twins(product: Product) -> Iterator[str]:
    """Members with the same bytes; empty ones are excused."""
    by_content = defaultdict(list)
    for name, digest in product.members.items():
        if (product.root / name).stat().st_size > 0:
            by_content[digest].append(name)
    for names in by_content.values():
        if len(names) > 1:
            yield f"the same bytes several times: {', '.join(names)}"


def libraries(plan: Plan, binaries: Mapping[str, Binary]) -> Iterator[str]:
    """RUNPATH as planned, every needed library accounted for, no symbol newer than the host's."""
    known = {*EVERYWHERE, *binaries, *cuda_libraries(plan)}
    floors = {"GLIBC": plan.host.glibc, "GLIBCXX": plan.host.glibcxx}
    for name, binary in binaries.items():
        if binary.runpath != plan.runpath:
            yield f"{name} has RUNPATH {binary.runpath}, planned is {plan.runpath}"
        for needed in binary.needed:
            if needed not in known:
                yield f"{name} needs {needed}, which nobody provides"
        for prefix, floor in floors.items():
            found = binary.versions.get(prefix, "0")
            if numeric(found) > numeric(floor):
                yield f"{name} needs {prefix}_{found}, host {plan.host.name} has {floor}"


def instructions(plan: Plan, product: Product) -> Iterator[str]:
    """A CPU backend has what was planned and nothing beyond; every other file is baseline."""
    for path in product.elf_files():
        used = read_code(path, product.symbols).used
        backend = plan.backend_files.get(path.name)
        for feature in beyond(used, backend.features if backend else ()):
            spots = used[feature].spots
            if is_dispatched(path.name, feature, (each.function or "?" for each in spots)):
                continue
            yield (
                f"{path.name} has {used[feature].count} {feature} instructions, which are not"
                f" planned, first {spots[0].text!r} at {spots[0].address:#x}"
                f" in {spots[0].function or '?'}"
            )
        for option in isa.OPTIONS if backend else ():
            if backend and option.name in backend.options and not set(option.proof) & set(used):
                wanted = " or ".join(option.proof)
                yield f"{path.name} has no {wanted} instruction, but {option.name} is ON"


def build_id(path: Path) -> str:
    found = read_binary(path).build_id
    if found is None:
        raise Refused(f"{path.name} has no build id, so its symbol map cannot be found")
    return found


def machine_code(plan: Plan, product: Product) -> Iterator[str]:
    """GPU code for exactly the planned architecture, no PTX; none at all in a CPU build."""
    found = {(image.kind, image.sm) for path in product.elf_files() for image in read_fatbin(path)}
    planned = {("cubin", plan.cuda.architecture)} if plan.cuda else set()
    if found != planned:
        yield f"GPU code found: {sorted(found)}, planned: {sorted(planned)}"
