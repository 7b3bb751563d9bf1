"""How long the facts of one library take, beside `objdump -d FILE | grep -c zmm`.

python bench/audit.py out/a10g/dist/*.whl llama_cpp/lib/libggml-cuda.so > bench/audit.json

WHEEL is also audited whole, for all known hosts. Medians of runs that take turns.
"""

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from hostwheel.artifact.contents import open_artifact
from hostwheel.artifact.native import read_files
from hostwheel.facts.cpuid import Cpu

RUNS = 5
FACTS = "all facts of the library"
OBJDUMP = "objdump -d | grep -c zmm"


def medians(works: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Seconds of each, run in turn."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(RUNS):
        for name, work in works.items():
            started = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - started)
    return {name: round(statistics.median(taken), 2) for name, taken in times.items()}


def with_objdump(library: Path) -> None:
    subprocess.run(f"objdump -d '{library}' | grep -c zmm", shell=True, stdout=subprocess.DEVNULL)


def audit_command(wheel: Path) -> None:
    argv = (sys.executable, "-m", "hostwheel", "audit", str(wheel))
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


def measured(wheel: Path, member: str) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        contents = open_artifact(wheel, Path(folder))
        (library,) = (each for each in contents.members if each.name == member)
        (facts,) = read_files((library,), None)
        seconds = medians(
            {
                FACTS: lambda: read_files((library,), None),
                OBJDUMP: lambda: with_objdump(library.path),
                "hostwheel audit of the whole wheel": lambda: audit_command(wheel),
            }
        )
    return {
        "command": f"python bench/audit.py {wheel.name} {member}",
        "cpu": Cpu().brand,
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.platform(),
        "bytes": library.size,
        "instructions": facts.code.instructions if facts.code else None,
        "seconds": seconds,
        "times faster than objdump": round(seconds[OBJDUMP] / seconds[FACTS], 1),
        "largest process, MB": largest(),
    }


def largest() -> int:
    """The most memory that this process or one that it started ever held."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(each).ru_maxrss for each in who) // 1000


if __name__ == "__main__":
    print(json.dumps(measured(Path(sys.argv[1]), sys.argv[2]), indent=1))
