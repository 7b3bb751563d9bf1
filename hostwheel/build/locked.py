"""A lock file of wheels with hashes → a folder, installed by pip with the user's own index."""

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from packaging.utils import canonicalize_name

from hostwheel.build.folders import is_intact, put, sibling, write_stamp, writing
from hostwheel.errors import BadInput, HostwheelError, MachineLacks, StepFailed
from hostwheel.run import live

STAMP = "installed.json"
PINNED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s\\;]+)", re.MULTILINE)

# The user's pip settings that say where wheels come from. Those that say what to install, or
# where to, are ours; pip.conf may hold them as well, and only the environment overrides it.
WHERE_FROM = frozenset(
    f"PIP_{name}"
    for name in (
        *("CACHE_DIR", "CERT", "CLIENT_CERT", "CONFIG_FILE", "DEFAULT_TIMEOUT", "EXTRA_INDEX_URL"),
        *("FIND_LINKS", "INDEX_URL", "KEYRING_PROVIDER", "NO_CACHE_DIR", "NO_INDEX", "PROXY"),
        *("RESUME_RETRIES", "RETRIES", "TIMEOUT", "TRUSTED_HOST", "USE_DEPRECATED", "USE_FEATURE"),
    )
)
OURS = {
    "PIP_CONSTRAINT": os.devnull,
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_QUIET": "0",
    "PIP_REQUIRE_VIRTUALENV": "0",
    "PIP_USER": "0",
    "PIP_VERBOSE": "0",
}

FULL = re.compile(r"No space left on device|Disk quota exceeded")
WRONG_HASH = re.compile(r"DO NOT MATCH THE HASHES|require-hashes mode|Hashes are required")
NO_NETWORK = re.compile(
    r"Connection|connection broken|Temporary failure in name resolution|timed out|ProxyError"
    r"|SSLError|Max retries exceeded|HTTP error 5\d\d"
)
NOT_OFFERED = re.compile(r"No matching distribution found|HTTP error 4\d\d")
NO_PIP = re.compile(r"No module named pip")


def install_locked(lock: Path, target: Path) -> None:
    """Have exactly the wheels of `lock` in `target`; an intact one is left alone.

    The caller holds the lock on `target`. MachineLacks without network or disk, BadInput when a
    wheel has another hash; pip's log is then kept beside `target`.
    """
    # Python is in the first line of the scripts that pip makes.
    install_as(lock, target, lambda installed: installed, python=sys.executable)


def install_as(
    lock: Path, target: Path, arranged: Callable[[Path], Path], *, python: str = ""
) -> None:
    """Like install_locked, but `arranged` turns what pip installed into the folder to keep."""
    inputs = {"lock": hashlib.sha256(lock_text(lock).encode()).hexdigest(), "python": python}
    if is_intact(target / STAMP, inputs, target):
        return
    fresh, log = sibling(target, "installing"), target.with_name(f"{target.name}.pip.log")
    try:
        with writing(target.parent):
            target.parent.mkdir(parents=True, exist_ok=True)
            log.unlink(missing_ok=True)
        pip_install(lock, fresh, log=log)
        with writing(fresh):
            keep = arranged(fresh)
            write_stamp(keep / STAMP, inputs, keep)
            put(keep, target)
            log.unlink()
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def lock_text(lock: Path) -> str:
    try:
        return lock.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read the lock file {lock}: {error}") from None


def locked_versions(lock: Path) -> Mapping[str, str]:
    """The version of each package in a lock file, by normalised name."""
    pins = PINNED.findall(lock_text(lock))
    return {str(canonicalize_name(name)): version for name, version in pins}


def pip_install(lock: Path, target: Path, *, log: Path) -> None:
    argv = (
        *(sys.executable, "-m", "pip", "install", "--require-hashes", "--only-binary=:all:"),
        *("--no-deps", "--no-compile", "--progress-bar=off", "--prefix=", "--root=/"),
        *("--target", str(target), "-r", str(lock)),
    )
    try:
        with writing(log.parent):
            live(argv, log=log, env=pip_environment(os.environ), show=say)
    except StepFailed as error:
        raise explained(lock, log.read_text(encoding="utf-8"), error) from None


def pip_environment(ours: Mapping[str, str]) -> dict[str, str]:
    """The environment `ours` with pip kept to where wheels come from."""
    kept = {
        name: value
        for name, value in ours.items()
        if not name.startswith("PIP_") or name in WHERE_FROM
    }
    return kept | OURS


def say(line: str) -> None:
    print(line, end="", file=sys.stderr, flush=True)


def explained(lock: Path, said: str, failed: StepFailed) -> HostwheelError:
    """pip's failure by who has to act, with its last errors."""
    errors = [line for line in said.splitlines() if line.startswith(("ERROR:", "WARNING: Retry"))]
    tail = "".join(f"\n    {line}" for line in (errors or said.splitlines())[-5:])
    if FULL.search(said):
        return MachineLacks(f"no room on the disk for the wheels of {lock}; make some{tail}")
    if NO_PIP.search(said):
        return MachineLacks(f"{sys.executable} has no pip; install it there (it is required){tail}")
    if WRONG_HASH.search(said):
        return BadInput(f"a wheel of {lock} is not the pinned one, or has no hash there{tail}")
    if NO_NETWORK.search(said):
        return MachineLacks(
            f"could not download the wheels of {lock}; set PIP_INDEX_URL, HTTPS_PROXY, PIP_CERT, "
            f"or for work without network PIP_FIND_LINKS and PIP_NO_INDEX=1{tail}"
        )
    if NOT_OFFERED.search(said):
        return MachineLacks(
            f"the index has no wheel of {lock} for this machine (linux x86-64 is needed), "
            f"or could not be reached; look at PIP_INDEX_URL, PIP_FIND_LINKS and pip.conf{tail}"
        )
    return failed
