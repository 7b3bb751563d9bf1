"""Requirements → wheels for another machine's Python and glibc, by uv and pip."""

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hostwheel.errors import BadInput, HostwheelError, MachineLacks, StepFailed
from hostwheel.facts.versions import numeric
from hostwheel.run import capture, stream
from hostwheel.user.indexes import pip_settings, uv_environment, uv_index

# `uv pip compile --python-platform`: the glibc versions that uv 0.13.9 has a name for
UV_LEVELS = (17, 28, *range(31, 41))
# PEP 600: what the older tags mean
NAMED_LEVELS: Mapping[int, str] = {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}
OLDEST_GLIBC, OLDEST_PYTHON = "2.17", "3.8"

# Settings of pip's that would change what is fetched, or for whom.
OURS = {
    "PIP_CONSTRAINT": os.devnull,
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_REQUIRE_VIRTUALENV": "0",
}
NO_NETWORK = re.compile(
    r"[Cc]onnection|name resolution|dns error|timed out|ProxyError|SSLError|certificate"
    r"|Max retries exceeded|error sending request|[Ff]ailed to fetch|HTTP error 5\d\d"
)
FETCHED = re.compile(
    r"(Downloading|Using cached) (\S+/)?(?P<package>[^-\s/]+-[^-\s/]+)-\S+\.whl.* \((?P<size>.+)\)"
)
FULL = re.compile(r"No space left on device|Disk quota exceeded|os error 28")


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """The machine that will install: CPython's minor version and glibc's ("3.11", "2.35")."""

    python: str
    glibc: str

    @property
    def uv_platform(self) -> str:
        """The highest level that uv has a name for."""
        minor = numeric(self.glibc)[1]
        return f"x86_64-manylinux_2_{max(level for level in UV_LEVELS if level <= minor)}"

    @property
    def pip_platforms(self) -> Iterator[str]:
        """Every platform tag that this glibc serves, the best first."""
        for minor in range(numeric(self.uv_platform.rpartition("_")[2])[0], 4, -1):
            yield f"manylinux_2_{minor}_x86_64"
            if minor in NAMED_LEVELS:
                yield f"{NAMED_LEVELS[minor]}_x86_64"


def target(python: str, glibc: str) -> Target:
    """BadInput for what no wheel is made for."""
    if not re.fullmatch(r"3\.\d{1,2}", python) or numeric(python) < numeric(OLDEST_PYTHON):
        raise BadInput(f"--python is {python!r}: expected {OLDEST_PYTHON} or newer, as in 3.11")
    if numeric(glibc) < numeric(OLDEST_GLIBC):
        raise BadInput(f"glibc {glibc}: wheels of today need {OLDEST_GLIBC} or newer")
    return Target(python=python, glibc=glibc)


def resolved(requirements: Path, omitted: Sequence[str], aim: Target) -> str:
    """A requirements file of everything, pinned by hash, but for the packages `omitted`.

    `requirements` may name wheels by path; they then are taken, whatever an index has.
    """
    env = dict(os.environ)
    settings = pip_settings(env)
    argv = (
        *(sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header"),
        *("--python", sys.executable, "--python-version", aim.python, "--only-binary", ":all:"),
        *("--python-platform", aim.uv_platform, "--generate-hashes", "--no-annotate"),
        *("--emit-index-url", "--emit-find-links"),  # pip is told what uv was told
        *(part for name in omitted for part in ("--no-emit-package", name)),
        *(*uv_index(env, settings), str(requirements)),
    )
    try:
        return capture(argv, env=uv_environment(env, settings))
    except StepFailed as failed:
        raise unresolved(str(failed), aim) from None


def unresolved(said: str, aim: Target) -> HostwheelError:
    """uv's failure by who has to act, without its command line."""
    what = f"for CPython {aim.python} on {aim.uv_platform}"
    text = said.partition("\n")[2]
    if "No solution found" in said:
        return BadInput(f"the requirements have no solution in wheels {what}\n{text}")
    if NO_NETWORK.search(text):
        hint = "set PIP_INDEX_URL, HTTPS_PROXY, PIP_CERT, or PIP_FIND_LINKS and PIP_NO_INDEX=1"
        return MachineLacks(f"could not ask the index {what}; {hint}\n{text}")
    return BadInput(f"the requirements could not be resolved {what}\n{text}")


def download(pins: Path, folder: Path, aim: Target) -> None:
    """The wheels of a resolved requirements file, checked by hash, into `folder`."""
    argv = (
        *(sys.executable, "-m", "pip", "download", "--only-binary=:all:", "--no-deps"),
        *("--require-hashes", "--progress-bar=off", "--implementation=cp"),
        *(f"--python-version={aim.python}", f"--dest={folder}", f"--requirement={pins}"),
        *(f"--platform={tag}" for tag in aim.pip_platforms),
    )
    said: list[str] = []

    def each(line: str) -> None:
        said.append(line)
        if match := FETCHED.search(line):
            print(f"{match['package']} ({match['size']})", file=sys.stderr, flush=True)

    if stream(argv, env={**os.environ, **OURS}, cwd=None, each=each) != 0:
        raise undelivered("".join(said), aim)


def undelivered(said: str, aim: Target) -> HostwheelError:
    tail = "".join(f"\n    {line}" for line in said.splitlines() if line.startswith("ERROR:"))
    if FULL.search(said):
        return MachineLacks(f"the disk is full; make room, or give TMPDIR another{tail}")
    if NO_NETWORK.search(said):
        return MachineLacks(f"the wheels could not be downloaded; is the index there?{tail}")
    return BadInput(f"pip could not fetch the wheels for CPython {aim.python}{tail}")
