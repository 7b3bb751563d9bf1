"""`python -m tests.tiny FOLDER build …`: the command line with two C files for llama.cpp.

Real are: locks, keeper, ninja, sccache, progress, packaging, exit codes. Everything lies in FOLDER.
`write_tiny` makes it. A file `hang` in it makes the compiler write half an object and then do
nothing, whatever it is told; `die`, write half an object and be killed; `size` is the wheel's;
`no-record` is a full disk when build.json is written.
"""

import errno
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from hostwheel.__main__ import main
from hostwheel.build.cmake import Configured
from hostwheel.build.evidence import Compiled, Machine, write_json
from hostwheel.build.product import Product
from hostwheel.build.source import Prepared
from hostwheel.build.toolchain import host_compiler
from hostwheel.plan.plan import Plan

BIN = Path(sys.executable).parent

COMPILER = """\
#!/bin/sh
case " $* " in
*" -E "*) ;;
*" main.o "*)
    [ -e FOLDER/hang ] && trap "" TERM && echo half >main.o && echo >FOLDER/hanging && sleep 600
    [ -e FOLDER/die ] && echo half >main.o && kill -9 $$
esac
exec /usr/bin/gcc "$@"
"""

NINJA = """\
rule cc
  command = sccache FOLDER/cc -MD -MF $out.d -c $in -o $out
  depfile = $out.d
  deps = gcc
  description = Building C object $out
build other.o: cc ../project/other.c
build main.o: cc ../project/main.c
"""

BACKEND = """\
import pathlib, subprocess

def build_wheel(folder, config_settings=None, metadata_directory=None):
    subprocess.run(("ninja", "-C", "../build"), check=True)
    size = pathlib.Path("../size")
    ballast = b"x" * int(size.read_text()) if size.is_file() else b""
    built = pathlib.Path("../build/main.o").read_bytes() + ballast
    pathlib.Path(folder, "tiny-1-py3-none-any.whl").write_bytes(built)
    return "tiny-1-py3-none-any.whl"
"""

PROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""


def write_tiny(folder: Path) -> None:
    for name, text in {
        "cc": COMPILER,
        "build/build.ninja": NINJA,
        "project/pyproject.toml": PROJECT,
        "project/backend.py": BACKEND,
        "project/main.c": "int main(void) { return 0; }\n",
        "project/other.c": "int other;\n",
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("FOLDER", str(folder)))
    (folder / "cc").chmod(0o755)


def environment(folder: Path) -> dict[str, str]:
    return {
        "PATH": f"{BIN}:/usr/bin:/bin",
        "HOME": str(folder),
        "SCCACHE_DIR": str(folder / "cache"),
        "TINY": str(folder),
    }


def product(plan: Plan, compiled: Compiled) -> Product:
    root = compiled.wheel.parent / "unpacked"
    (root / "symbols").mkdir(parents=True)
    return Product(
        wheel=compiled.wheel,
        root=root,
        symbols=root / "symbols",
        members={},
        metadata={},
        tags=(),
    )


def write_record(folder: Path, file: Path, content: Mapping[str, Any]) -> None:
    if (folder / "no-record").exists():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
    write_json(file, content)


def run(folder: Path, argv: list[str]) -> int:
    prepared = Prepared(src=folder, archive_sha256="", patches=(), reused=True)
    machine = Machine(compiler=host_compiler(), toolkit=None)
    stand_ins = {
        "build.ROOT": folder / "root",
        "build.prepare_source": lambda *_: prepared,
        "build.prepare_tools": lambda *_: machine,
        "build.write_project": lambda *_: None,
        "build.project_folder": lambda plan: folder / "project",
        "build.build_folder": lambda plan: folder / "build",
        "build.configure": lambda *_: None,
        "build.check_configured": lambda *_: None,
        "build.configured": lambda *_: Configured(cache={}, commands=(), said=""),
        "build.checked": product,
        "build.write_json": partial(write_record, folder),
        "build.write_archive": lambda plan, root, archive: archive.write_bytes(b"archive"),
        "engine.build_folder": lambda plan: folder / "build",
        "engine.environment": lambda *_: environment(folder),
    }
    for name, stand_in in stand_ins.items():
        mock.patch(f"hostwheel.build.{name}", stand_in).start()
    return main(argv)


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]), sys.argv[2:]))
