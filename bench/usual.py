"""What the usual way of building costs: python bench/usual.py compile_commands.json

Each of FILES is compiled alone, once with a recipe's command and once with the architectures that
llama.cpp chooses when nobody names any (CUDA 13, GGML_NATIVE=OFF), one after the other, without a
compiler cache; CPU-seconds of nvcc and all that it starts. A kind's mean, times how many files of
that kind a default build compiles, gives the CUDA part. The usual way compiles everything twice,
the wheel and the server apart; C++ is taken as measured in bench/build.json for cpu-avx2, and ours
as measured there for the whole of the recipe.
"""

import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hostwheel.facts.cpuid import Cpu

BENCH = Path(__file__).parent

# ggml/src/ggml-cuda/CMakeLists.txt, its list for CUDA 13.
REAL, VIRTUAL = ("86", "89", "120a", "121a"), ("75", "80", "90")

# Kind → what a default build compiles of it, and those that are measured.
KINDS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "fattn-mma instances": (
        "template-instances/fattn-mma-*.cu",
        ("template-instances/fattn-mma-f16-instance-ncols1_8-ncols2_4.cu",),
    ),
    "fattn-tile instances": (
        "template-instances/fattn-tile-*.cu",
        ("template-instances/fattn-tile-instance-dkq128-dv128.cu",),
    ),
    "fattn-vec instances of the default types": (
        "template-instances/fattn-vec-instance-*[01f6]-*.cu",
        ("template-instances/fattn-vec-instance-f16-f16.cu",),
    ),
    "mmq instances": (
        "template-instances/mmq-*.cu",
        ("template-instances/mmq-instance-q4_k.cu",),
    ),
    "mmf instances": (
        "template-instances/mmf-*.cu",
        ("template-instances/mmf-instance-ncols_8.cu",),
    ),
    "operators": (
        "*.cu",
        tuple(
            f"{name}.cu"
            for name in ("mmvq", "cpy", "mmvf", "ggml-cuda", "softmax", "norm", "rope", "unary")
        ),
    ),
}
DEFAULT_PAIRS = frozenset(("q4_0-q4_0", "q8_0-q8_0", "f16-f16", "bf16-bf16"))


def count(folder: Path, pattern: str) -> int:
    names = [path.stem for path in folder.glob(pattern)]
    pairs = [name for name in names if "fattn-vec" in name]
    return len(
        [name for name in pairs if name.rpartition("instance-")[2] in DEFAULT_PAIRS] or names
    )


def any_file(entries: list[dict[str, str]]) -> dict[str, str]:
    return next(each for each in entries if each["file"].endswith("/ggml-cuda/cpy.cu"))


def command(entry: dict[str, str], source: Path, target: Path) -> list[str]:
    """How any other CUDA file of the recipe is compiled, with this source and target."""
    argv = shlex.split(entry["command"])
    argv[argv.index(entry["file"])] = str(source)
    argv[argv.index("-o") + 1] = str(target)
    return argv


def usual(argv: list[str]) -> list[str]:
    codes = (
        *(f"--generate-code=arch=compute_{arch},code=[sm_{arch}]" for arch in REAL),
        *(f"--generate-code=arch=compute_{arch},code=[compute_{arch}]" for arch in VIRTUAL),
    )
    kept = [part for part in argv if not part.startswith(("--generate-code", "-DHOSTWHEEL"))]
    return [kept[0], *codes, *kept[1:]]


def cpu_seconds(argv: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, check=True, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1)


def measured(entry: dict[str, str], name: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(entry["file"]).parent / name
        argv = command(entry, source, Path(folder, "x.o"))
        figures = {"one architecture": cpu_seconds(argv), "default": cpu_seconds(usual(argv))}
    print(name, figures, file=sys.stderr, flush=True)
    return figures


def whole(kinds: Mapping[str, Any]) -> dict[str, float]:
    """The usual way, extrapolated, and ours, measured: CPU-seconds, and the one by the other."""
    gpu = {
        way: sum(kind["files"] * kind["mean"][way] for kind in kinds.values())
        for way in ("one architecture", "default")
    }
    compiled = cold_compiles()
    usual = 2 * (gpu["default"] + compiled["hostwheel build cpu-avx2"])
    ours = compiled["hostwheel build a10g"]
    return {
        "CUDA files, default architectures, once": round(gpu["default"]),
        "CUDA files, one architecture, once": round(gpu["one architecture"]),
        "the usual way": round(usual),
        "ours": round(ours),
        "ours / the usual way": round(ours / usual, 3),
    }


def cold_compiles() -> dict[str, float]:
    """The dearest compile of each command in bench/build.json: that with empty caches."""
    recorded = json.loads((BENCH / "build.json").read_text())
    found: dict[str, float] = {}
    for each in recorded:
        cpu = next(step["cpu"] for step in each["steps"] if step["name"] == "compile")
        found[each["command"]] = max(cpu, found.get(each["command"], 0.0))
    return found


def main(commands: str) -> None:
    entry = any_file(json.loads(Path(commands).read_text()))
    folder = Path(entry["file"]).parent
    files = {
        kind: {name: measured(entry, name) for name in names} for kind, (_, names) in KINDS.items()
    }
    kinds = {
        kind: {
            "files": count(folder, KINDS[kind][0]),
            "mean": {
                way: round(sum(each[way] for each in found.values()) / len(found), 1)
                for way in ("one architecture", "default")
            },
        }
        for kind, found in files.items()
    }
    result = {
        "command": "python bench/usual.py build/a10g/compile_commands.json",
        "unit": "CPU-seconds",
        "cpu": Cpu().brand,
        "cores": len(os.sched_getaffinity(0)),
        "files": files,
        "kinds": kinds,
        "whole": whole(kinds),
    }
    (BENCH / "usual.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
