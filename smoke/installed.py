"""The artifact that is tested, and a fresh environment with its wheel, used as a user would."""

import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

UV = (sys.executable, "-m", "uv", "--quiet")


@dataclass(frozen=True, kw_only=True, slots=True)
class Artifact:
    """What a build left in `dist`."""

    wheel: Path
    archive: Path


def unpack(archive: Path, folder: Path) -> None:
    """Our own archive. Python before 3.11.4 has no filter for it, Debian 12's among them."""
    with tarfile.open(archive) as tar:
        if hasattr(tarfile, "data_filter"):
            tar.extractall(folder, filter="data")
        else:
            tar.extractall(folder)


@dataclass(frozen=True, kw_only=True, slots=True)
class Installed:
    """A virtual environment at `prefix`, used from the empty folder `cwd`."""

    prefix: Path
    cwd: Path

    @property
    def package(self) -> Path:
        """The folder of llama_cpp."""
        return next(self.prefix.glob("lib/python3*/site-packages/llama_cpp"))

    def run(
        self,
        *argv: str | Path,
        wrap: Sequence[str] = (),
        timeout: float = 300,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run program `argv[0]` of the environment; `env` comes on top of next to nothing."""
        return subprocess.run(
            self.command(argv, wrap),
            cwd=self.cwd,
            env=self.environment(env or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
        )

    def start(
        self,
        *argv: str | Path,
        wrap: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        log: Path | None = None,
    ) -> "subprocess.Popen[str]":
        """Like `run`, without waiting. What it says goes to `log`, if there is one."""
        with (log or Path("/dev/null")).open("w") as sink:
            return subprocess.Popen(
                self.command(argv, wrap),
                cwd=self.cwd,
                env=self.environment(env or {}),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                text=True,
            )

    def command(self, argv: Sequence[str | Path], wrap: Sequence[str]) -> list[str]:
        """`wrap` is an emulator, which reads no "#!": it gets the program behind the script."""
        program = self.prefix / "bin" / argv[0]
        behind = self.package / "lib" / argv[0]
        return [*wrap, str(behind if wrap and behind.is_file() else program), *map(str, argv[1:])]

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        path = f"{self.prefix / 'bin'}:/usr/bin:/bin"
        return {"PATH": path, "HOME": str(self.cwd), **more}


def fresh_environment(folder: Path, python: str = sys.executable) -> Installed:
    """An empty virtual environment of `python`, made by uv."""
    installed = Installed(prefix=folder / "venv", cwd=folder / "elsewhere")
    installed.cwd.mkdir(parents=True)
    subprocess.run((*UV, "venv", "--python", python, installed.prefix), check=True)
    return installed


def uv_install(installed: Installed, *what: str | Path) -> None:
    """Install with uv. Raises CalledProcessError; uv has said why on stderr."""
    python = installed.prefix / "bin" / "python"
    subprocess.run((*UV, "pip", "install", "--python", python, *what), check=True)


def put_hostwheel(installed: Installed) -> None:
    """Copy hostwheel into the environment for its `readout`, without what the rest of it needs."""
    unwanted = shutil.ignore_patterns("__pycache__", "_data")
    target = installed.package.with_name("hostwheel")
    shutil.copytree(Path(str(files("hostwheel"))), target, ignore=unwanted)
