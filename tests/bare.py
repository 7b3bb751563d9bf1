"""A bare system of another release in a container, and the smoke suite run there by its Python."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hostwheel.smoke.checks import Check, read_checks
from hostwheel.user.resolve import download, resolved, target
from tests import containers
from tests.builds import CHECKOUT, Built

DEBIAN_13 = target("3.13", "2.41")
OURS = "llama-cpp-python"

# The suite makes a smaller container in there. --privileged would ask for every capability, and
# docker refuses that where the machine itself lacks one.
NAMESPACES = (
    "--cap-add=SYS_ADMIN",
    *("--security-opt=systempaths=unconfined", "--security-opt=apparmor=unconfined"),
)

# The suite's own modules in an environment of their own: with PYTHONPATH they would also be in
# those that it makes, where pip then installs less.
START = f"""
python3 -m venv --without-pip /tmp/suite
printf '%s\\n' "$1" "$2" >/tmp/suite/lib/python{DEBIAN_13.python}/site-packages/suite.pth
shift 2
exec /tmp/suite/bin/python "$@"
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bare:
    """The system, and what it sees of this machine, at the same paths; no network.

    It writes into `reports` alone.
    """

    engine: str
    seen: Sequence[Path]
    reports: Path

    def run(
        self, *argv: str | Path, env: Mapping[str, str] | None = None, timeout: float = 600
    ) -> "subprocess.CompletedProcess[str]":
        limits = ("--ulimit=nproc=4096:4096", "--ulimit=nofile=20000:20000")
        command = (
            *(self.engine, "run", "--rm", "--network=none", *limits, *NAMESPACES),
            *(f"--volume={path}:{path}:ro" for path in self.seen),
            f"--volume={self.reports}:{self.reports}",
            *(f"--env={name}={value}" for name, value in (env or {}).items()),
            *(containers.BARE, *map(str, argv)),
        )
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


@dataclass(frozen=True, kw_only=True, slots=True)
class Suite:
    """What the suite needs there: its `tools`, `wheels` of all that the tested one requires,
    llama.cpp's `sources` and SmolLM2."""

    tools: Path
    wheels: Path
    sources: Path
    model: Path

    def seen(self) -> Sequence[Path]:
        modules = (CHECKOUT / "hostwheel", CHECKOUT / "smoke")
        return (self.tools, self.wheels, self.sources, self.model, *modules)

    def environment(self) -> Mapping[str, str]:
        return {
            "PYTHONDONTWRITEBYTECODE": "1",
            "UV_OFFLINE": "1",
            "UV_FIND_LINKS": str(self.wheels),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
        }


def provided(built: Built, model: Path, sources: Path, folder: Path) -> Suite:
    """Downloaded here, for the Python there."""
    tools, wheels = folder / "tools", folder / "wheels"
    install_for_it(tools, "--requirements", "pyproject.toml", "--group", "smoke")
    wanted, pins = folder / "wanted.in", folder / "wanted.txt"
    wanted.write_text(f"{OURS} @ {built.wheel.as_uri()}\nnumpy\n")
    pins.write_text(resolved(wanted, (OURS,), DEBIAN_13))
    download(pins, wheels, DEBIAN_13)
    return Suite(tools=tools, wheels=wheels, sources=sources, model=model)


def install_for_it(folder: Path, *what: str | Path) -> None:
    """Install for the Python there, not for ours."""
    uv = (sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target", folder)
    aim = ("--python-version", DEBIAN_13.python, "--python-platform", DEBIAN_13.uv_platform)
    subprocess.run((*uv, *aim, "--only-binary=:all:", *what), cwd=CHECKOUT, check=True)


def suite_there(there: Bare, built: Built, suite: Suite, *what: str) -> Sequence[Check]:
    """What becomes there of these files or checks of the suite."""
    report = there.reports / "report.xml"
    given = {
        "wheel": built.wheel,
        "archive": built.archive,
        "plan": built.out / "build.json",
        "source": suite.sources,
        "model": suite.model,
        "junit-xml": report,
        "rootdir": CHECKOUT,
    }
    options = (f"--{name}={value}" for name, value in given.items())
    python = ("sh", "-euc", START, "start", suite.tools, CHECKOUT)
    pytest = ("-m", "pytest", "-v", "-p", "no:cacheprovider", "--no-emulator", *options)
    asked = (f"{CHECKOUT}/smoke/{each}" for each in what)
    done = there.run(*python, *pytest, *asked, env=suite.environment(), timeout=1800)
    print(done.stdout, done.stderr)
    return read_checks(report)
