"""What a build leaves beside its product: build.json and the symbol maps."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostwheel.artifact.contents import sha256
from hostwheel.artifact.magic import is_elf
from hostwheel.artifact.symbols import read_symbol_map, write_symbol_map
from hostwheel.build.clock import Clock
from hostwheel.build.cmake import Configured
from hostwheel.build.product import Product, build_id
from hostwheel.build.steps import CompileStep
from hostwheel.build.toolchain import Compiler, Toolkit
from hostwheel.errors import Refused
from hostwheel.plan.plan import Plan, plain


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """The tools that this machine builds with."""

    compiler: Compiler
    toolkit: Toolkit | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiled:
    """The wheel as scikit-build-core left it; what CMake, sccache and ninja said on the way."""

    wheel: Path
    configured: Configured
    cache: Mapping[str, int]
    steps: tuple[CompileStep, ...]


def write_symbols(product: Product, built: Path) -> None:
    """The function names of each shipped, stripped file, from its unstripped twin in `built`."""
    unstripped = {
        found: path for path in built.iterdir() if is_elf(path) and (found := build_id(path))
    }
    product.symbols.mkdir()
    for path in product.elf_files():
        twin = unstripped.get(build_id(path))
        if twin is None:
            raise Refused(f"{path.name} (build id {build_id(path)}) has no twin in {built}")
        write_symbol_map(read_symbol_map(twin), product.symbols)


def record(
    plan: Plan, machine: Machine, compiled: Compiled, clock: Clock, dist: Path
) -> dict[str, Any]:
    """build.json: what was built, from what, with what, at what cost."""
    commands = [
        {"file": command["file"], "command": command["command"]}
        for command in compiled.configured.commands
    ]
    return {
        "schema": 1,
        "recipe": plan.recipe,
        "plan": plan.json(),
        "plan_hash": plan.hash,
        "source": {"archive_sha256": plan.source.sha256, "patches": dict(plan.patches)},
        "compiler": machine.compiler.version_text,
        "toolkit": dict(machine.toolkit.packages) if machine.toolkit else None,
        "artifacts": [
            {"name": path.name, "sha256": sha256(path), "bytes": path.stat().st_size}
            for path in sorted(dist.iterdir())
        ],
        "compiler_cache": dict(compiled.cache),
        "steps": [
            {"name": step.name, "wall": round(step.wall, 2), "cpu": round(step.cpu, 2)}
            for step in clock.steps
        ],
        "compile_steps": [plain(step) for step in compiled.steps],
        "cmake_cache": dict(compiled.configured.cache),
        "compile_commands": commands,
    }


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
