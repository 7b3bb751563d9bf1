"""The text files of a bundle. Pure: the same parts give the same bytes."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tomli_w
from packaging.pylock import Package, PackageWheel, Pylock
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from hostwheel import __version__
from hostwheel.facts.versions import numeric
from hostwheel.user.bundle_source import Build
from hostwheel.user.bundle_wheels import Wheel
from hostwheel.user.carried.sums import SCHEMA
from hostwheel.user.prune import LeftOut
from hostwheel.user.resolve import Target

HEAD = """\
# Everything, as wheels beside this file, for CPython {python} on Linux x86-64 with glibc {glibc}:
#     python -m pip install {no_deps}--require-hashes -r requirements.txt
{pruned}--no-index
--find-links wheels
"""
PRUNED = "# --no-deps, because the bundle was made with --prune, without {names}\n"

README = """\
{title}
{underline}

For CPython {python} on Linux x86-64 with glibc {glibc} or newer, and a CPU with
{features}.
No network, no compiler and no root are needed:

    python{python} install.py --venv DIR      # a new virtual environment
    python{python} install.py --target DIR    # or a new folder for PYTHONPATH
    DIR/run-server.sh --port 8080{blank}

install.py first looks at this machine and at every file (SHA256SUMS), installs beside DIR,
tests what it installed, and only then puts it there. Where it stops, nothing is installed.
Into an environment that you have, in this folder:

    python -m pip install {no_deps}--require-hashes -r requirements.txt
    uv pip install {no_deps}--require-hashes -r requirements.txt

llama-server is the file llama_cpp/lib/llama-server of the installed wheel; it and Python's
llama_cpp share one copy of every library.
{evidence}{cuda}{unproved}"""

EVIDENCE = """
What was recorded when this wheel was built, audited and tested is in evidence/;
`hostwheel verify` of this folder, or of the zip file, holds everything against it.
"""
CUDA = """
The GPU is used where there is an NVIDIA driver {driver} or newer and a GPU of sm_{architecture};
elsewhere everything runs on the CPU. CUDA's libraries are NVIDIA's own wheels, byte for byte. Who
passes them on is bound by NVIDIA's licence, whose text is in licenses/.
"""
UNPROVED = """
Not proved: this build came without {names} for exactly its bytes.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What the texts speak of. `aim.glibc` is the floor of all wheels together."""

    build: Build
    aim: Target
    wheels: Sequence[Wheel]
    models: Sequence[str]
    left_out: Sequence[LeftOut]

    @property
    def no_deps(self) -> str:
        return "--no-deps " if self.left_out else ""


def requirements(facts: Facts) -> str:
    names = ", ".join(each.wheel.name for each in facts.left_out)
    head = HEAD.format(
        python=facts.aim.python,
        glibc=facts.aim.glibc,
        no_deps=facts.no_deps,
        pruned=PRUNED.format(names=names) if names else "",
    )
    pins = (f"{each.name}=={each.version} --hash=sha256:{each.sha256}\n" for each in facts.wheels)
    return head + "".join(pins)


def pylock(facts: Facts) -> str:
    """PEP 751, with wheels by their path from the lock file."""
    packages = [
        Package(
            name=canonicalize_name(each.name),
            version=each.version,
            wheels=[
                PackageWheel(
                    name=each.path.name,
                    path=f"wheels/{each.path.name}",
                    size=each.size,
                    hashes={"sha256": each.sha256},
                )
            ],
        )
        for each in facts.wheels
    ]
    lock = Pylock(
        lock_version=Version("1.0"),
        requires_python=SpecifierSet(f"=={facts.aim.python}.*"),
        created_by="hostwheel",
        packages=packages,
    )
    lock.validate()
    return tomli_w.dumps(lock.to_dict())


def said(facts: Facts) -> str:
    """bundle.json: what install.py asks of a machine, and what people look up."""
    needs = facts.build.needs
    content: Mapping[str, Any] = {
        "schema": SCHEMA,
        "tool": f"hostwheel {__version__}",
        "recipe": facts.build.recipe,
        "version": facts.build.version,
        "wheel": facts.build.filename,
        "unproved": facts.build.unproved,
        "python": facts.aim.python,
        "features": needs.features,
        "glibc": facts.aim.glibc,
        "glibcxx": needs.glibcxx,
        "cuda": needs.cuda,
        "driver": needs.driver,
        "unpacked": sum(each.unpacked for each in facts.wheels),
        "models": [f"models/{name}" for name in facts.models],
        "left_out": [f"{each.wheel.name}=={each.wheel.version}" for each in facts.left_out],
    }
    return json.dumps(content, indent=1) + "\n"


def readme(facts: Facts) -> str:
    build, needs = facts.build, facts.build.needs
    title = f"llama.cpp {build.version} for {build.title}"
    cuda = CUDA.format(driver=needs.driver, architecture=needs.architecture) if needs.cuda else ""
    return README.format(
        title=title,
        underline="=" * len(title),
        python=facts.aim.python,
        glibc=facts.aim.glibc,
        features=" ".join(needs.features) or "nothing beyond x86-64",
        no_deps=facts.no_deps,
        blank="" if facts.models else " --model FILE.gguf",
        evidence=EVIDENCE if build.evidence else "",
        cuda=cuda,
        unproved=UNPROVED.format(names=", ".join(build.unproved)) if build.unproved else "",
    )


def glibc_floor(wheels: Iterable[Wheel], otherwise: str) -> str:
    """The lowest glibc that serves every wheel."""
    return max((each.glibc for each in wheels if each.glibc), key=numeric, default=otherwise)
