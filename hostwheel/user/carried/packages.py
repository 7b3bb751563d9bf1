"""The wheels into a new environment or folder, by pip or uv, and the models beside them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hostwheel.errors import BadInput, MachineLacks, StepFailed

# pip writes its interpreter's path into scripts. It runs in the folder beside, so it is told the
# path that this one will have.
PIP = """\
import runpy, sys
sys.executable, wheel = sys.argv[1:3]
sys.path.insert(0, wheel)
sys.argv[:3] = ["pip"]
runpy.run_module("pip", run_name="__main__")
"""
# pip writes RECORD for a folder lib/python, and then moves that and bin to one `--target`.
BESIDE = re.compile(r'^("?)\.\./\.\./', re.MULTILINE)
SERVER = "run-server.sh"
SPARE = 1.1  # of the unpacked size: bytecode, file system blocks
OTHERS = ("PIP_", "UV_", "PYTHON", "VIRTUAL_ENV", "CONDA_PREFIX")  # the user's settings
FULL = "No space left on device", "Disk quota exceeded", "os error 28"


class Packages:
    """What is installed, from `bundle` into `stage`, which will be renamed to `destination`."""

    def __init__(self, bundle: Path, stage: Path, destination: Path, installer: str) -> None:
        self.bundle, self.stage, self.destination = bundle, stage, destination
        self.installer = installer

    def in_venv(self) -> tuple[Path, Path]:
        """A new environment: its Python and its site-packages."""
        try:
            import venv
        except ImportError:
            raise MachineLacks("this Python has no module venv: use --target DIR") from None
        name = self.destination.name
        venv.EnvBuilder(symlinks=True, with_pip=False, prompt=name).create(self.stage)
        self.rename_in_scripts()
        python = self.stage / "bin" / "python"
        self.install(python, self.destination / "bin" / "python", ())
        base = {"base": str(self.stage), "platbase": str(self.stage)}
        return python, Path(sysconfig.get_path("purelib", scheme="posix_prefix", vars=base))

    def in_folder(self) -> tuple[Path, Path]:
        """The Python that runs this, and the folder for its sys.path."""
        python = Path(sys.executable)
        self.install(python, python, ("--target", str(self.stage)))
        for record in self.stage.glob("*.dist-info/RECORD"):
            text = record.read_text(encoding="utf-8")
            record.write_text(BESIDE.sub(r"\1", text), encoding="utf-8")
        return python, self.stage

    def rename_in_scripts(self) -> None:
        """`activate` is for the environment at its later place; uv's scripts are for any."""
        settings = self.stage / "pyvenv.cfg"
        for file in (settings, *(self.stage / "bin").glob("activate*")):
            text = file.read_text(encoding="utf-8")
            file.write_text(text.replace(str(self.stage), str(self.destination)), "utf-8")
        with settings.open("a", encoding="utf-8") as more:
            more.write("relocatable = true\n")  # uv's key

    def install(self, python: Path, later: Path, where: tuple[str, ...]) -> None:
        argv = self.with_uv(python) if self.installer == "uv" else self.with_pip(python, later)
        wheels = ("--no-index", "--find-links", str(self.bundle / "wheels"))
        exact = ("--no-deps", "--require-hashes", "-r", str(self.bundle / "requirements.txt"))
        run([*argv, *wheels, *exact, *where], self.stage)
        shutil.copyfile(self.bundle / SERVER, self.stage / SERVER)
        (self.stage / SERVER).chmod(0o755)  # some unpack without the modes

    def with_pip(self, python: Path, later: Path) -> list[str]:
        wheel = next(iter((self.bundle / "tools").glob("pip-*.whl")), None)
        if wheel is None:
            raise BadInput(f"{self.bundle / 'tools'} has no pip: unpack the bundle anew")
        quiet = ("--quiet", "--no-input", "--disable-pip-version-check", "--no-cache-dir")
        start = [str(python), "-I", "-c", PIP, str(later), str(wheel), *quiet]
        return [*start, "install", "--no-warn-script-location"]

    def with_uv(self, python: Path) -> list[str]:
        uv = shutil.which("uv")
        if uv is None:
            raise MachineLacks("there is no uv on PATH: leave `--with uv` out, pip is carried")
        quiet = ("--quiet", "--offline", "--no-config", "--no-cache", "--link-mode", "copy")
        return [uv, "pip", "install", *quiet, "--python", str(python)]


def run(argv: Sequence[str], temporary: Path) -> None:
    """With settings of the user's, which would change what is installed, left out.

    pip unpacks into TMPDIR, which may be small, before it moves things to a `--target`.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OTHERS)}
    done = subprocess.run(
        argv,
        env={**kept, "PIP_CONFIG_FILE": os.devnull, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    if done.returncode == 0:
        return
    if any(text in done.stdout for text in FULL):
        raise MachineLacks("the disk is full; nothing was installed: make room, and run it again")
    said = "\n    ".join(done.stdout.strip().splitlines()[-8:])
    raise StepFailed(f"nothing was installed: exit status {done.returncode}\n    {said}")


def check_room(destination: Path, bundle: Path, said: dict[str, Any]) -> None:
    """MachineLacks where the unpacked wheels, and models that cannot be linked, do not fit."""
    folder = next(parent for parent in destination.parents if parent.exists())
    models = sum((bundle / name).stat().st_size for name in said["models"])
    linked = folder.stat().st_dev == bundle.stat().st_dev
    needed = int(said["unpacked"] * SPARE) + (0 if linked else models)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise MachineLacks(
            f"the disk of {folder} has {free / 1e6:.0f} MB free, {needed / 1e6:.0f} MB are needed;"
            " nothing was installed: make room, or give another folder"
        )


def add_models(bundle: Path, said: dict[str, Any], stage: Path) -> list[Path]:
    """Linked where that can be: they are large, and the bundle may be removed afterwards."""
    for name in said["models"]:
        (stage / name).parent.mkdir(exist_ok=True)
        try:
            os.link(bundle / name, stage / name)
        except OSError:  # another disk, or a file of somebody else's
            shutil.copyfile(bundle / name, stage / name)
    return [stage / name for name in said["models"]]
