"""Base images, from docker/images.toml: by digest, or a dated tag that says why it has none."""

import re
from dataclasses import dataclass
from pathlib import Path

from hostwheel.errors import BadInput
from hostwheel.facts.cuda import TOOLKITS
from hostwheel.plan.data import PACKAGE, Data
from hostwheel.plan.plan import Plan
from hostwheel.plan.table import Table, near, read_table

DIGEST = r"sha256:[0-9a-f]{64}"
KEYS = ("repository", "tag", "digest", "unpinned", "glibc", "cuda", "cuda_root")


@dataclass(frozen=True, kw_only=True, slots=True)
class Base:
    """An image to build on. `digest` is None for one that nobody has pinned yet.

    `glibc` is the base's own, as far as it is known; `cuda` the toolkit release in it, `cuda_root`
    that toolkit's folder.
    """

    name: str
    repository: str
    tag: str | None
    digest: str | None
    glibc: str | None
    cuda: str | None
    cuda_root: Path | None

    @property
    def image(self) -> str:
        """What an engine is asked for: the digest wherever there is one."""
        if self.digest:
            return f"{self.repository}@{self.digest}"
        return f"{self.repository}:{self.tag}" if self.tag else self.repository


def docker_folder(data: Data) -> Path:
    """Beside the recipes, else our own: a checkout's, or the one in the package."""
    for root in (data.recipes.parent, PACKAGE.parent, PACKAGE / "_data"):
        if (root / "docker" / "images.toml").is_file():
            return root / "docker"
    raise BadInput("no docker/images.toml found: run hostwheel in a checkout")


def read_bases(file: Path) -> dict[str, Base]:
    bases = read_table(file).knows("base").table("base")
    return {name: read_base(name, bases.table(name)) for name in bases.values}


def read_base(name: str, table: Table) -> Base:
    table.knows(*KEYS)
    digest, unpinned = table.get("digest", str), table.get("unpinned", str)
    if digest is not None and not re.fullmatch(DIGEST, digest):
        raise table.wrong("digest", f"is {digest!r}", "expected sha256: and 64 hexadecimal digits")
    if (digest is None) == (unpinned is None):
        hint = "give the digest, or the reason why there is none (nox -s pins looks it up)"
        raise table.wrong("digest", "and unpinned are both there, or neither", hint)
    root = table.get("cuda_root", str)
    return Base(
        name=name,
        repository=table.matching("repository", r"[a-z0-9][a-z0-9._/:-]*", "quay.io/pypa/…"),
        tag=table.matching("tag", r"[A-Za-z0-9_][A-Za-z0-9._-]*", "2026.10.26-1"),
        digest=digest,
        glibc=table.get("glibc", str),
        cuda=table.get("cuda", str),
        cuda_root=Path(root) if root else None,
    )


def base_for(plan: Plan, wanted: str | None, bases: dict[str, Base]) -> Base:
    """`wanted`: a name of images.toml, or an image that the engine has; None: the plan's own."""
    release = release_in_base(plan)
    if wanted is None:
        for base in bases.values():
            if base.cuda == release:
                return base
        raise BadInput(f"no base in images.toml has CUDA {release}, which {plan.recipe} needs")
    if wanted in bases:
        return checked(bases[wanted], release, plan)
    if not re.search(r"[:/@]", wanted):
        hint = near(wanted, bases)
        raise BadInput(f"no base {wanted!r} in images.toml; {hint} An image is NAME:TAG")
    return own_base(wanted, release)


def release_in_base(plan: Plan) -> str | None:
    """The CUDA that has to be part of the base; None where it comes from packages, or is none."""
    if plan.cuda is None or TOOLKITS[plan.cuda.release].packaged:
        return None
    return plan.cuda.release


def checked(base: Base, release: str | None, plan: Plan) -> Base:
    if base.cuda == release:
        return base
    has, needs = f"CUDA {base.cuda or 'none'}", f"CUDA {release or 'none of its own'}"
    raise BadInput(f"base {base.name} has {has} in it; {plan.recipe} needs {needs}")


def own_base(image: str, release: str | None) -> Base:
    """A user's image, by tag or digest; what is in it is asked for when it is used."""
    root = Path("/usr/local/cuda") if release else None
    return Base(
        name=image,
        repository=image,
        tag=None,
        digest=None,
        glibc=None,
        cuda=release,
        cuda_root=root,
    )
