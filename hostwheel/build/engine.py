"""The local engine: this machine's g++, in an environment that is complete and ours."""

import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostwheel.build.progress import watching
from hostwheel.build.project import build_folder
from hostwheel.build.steps import last_costs
from hostwheel.errors import MachineLacks, Refused, StepFailed
from hostwheel.plan.defines import ROOT
from hostwheel.plan.plan import Plan
from hostwheel.run import capture, indented, live, start

BYTES_PER_JOB = 1 << 30  # a g++ of llama-server's biggest files takes a little less
BYTES_PER_CUDA_JOB = 2 << 30  # what an nvcc of a FlashAttention template has been seen to take
FULL = 1 << 20  # bytes; CMake and ninja do not say that it is the disk
KILLED = re.compile(r"Killed|out of memory|signal:? 9\b|SIGKILL")


def environment(plan: Plan, ours: Mapping[str, str]) -> dict[str, str]:
    """The plan's environment, and of `ours` only what the plan lets through."""
    passed = {
        name: value
        for name, value in ours.items()
        if any(fnmatch.fnmatch(name, pattern) for pattern in plan.engine.passed_through)
    }
    return passed | dict(plan.engine.environment)


@dataclass(frozen=True, kw_only=True, slots=True)
class Jobs:
    """How many compilers may run at once, and how many nvcc among them."""

    every: int
    cuda: int

    def environment(self) -> dict[str, str]:
        """For cmake --build, and for the project's job pool of nvcc."""
        return {
            "CMAKE_BUILD_PARALLEL_LEVEL": str(self.every),
            "HOSTWHEEL_CUDA_JOBS": str(self.cuda),
        }


def jobs(cpus: int, available_bytes: int) -> Jobs:
    """Bounded by cores and, each kind by itself, by memory; at least one of each."""

    def fitting(bytes_per_job: int) -> int:
        return max(1, min(cpus, available_bytes // bytes_per_job))

    return Jobs(every=fitting(BYTES_PER_JOB), cuda=fitting(BYTES_PER_CUDA_JOB))


def available_memory() -> int:
    """Bytes that a new process can have without swapping (`MemAvailable`)."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise MachineLacks("/proc/meminfo does not say MemAvailable: is this Linux?")


def configure(plan: Plan, project: Path, log: Path) -> None:
    """Run CMake alone, so that what it did can be checked before an hour is spent on it."""
    argv = configure_argv(plan, project)
    count = jobs(len(os.sched_getaffinity(0)), available_memory())
    try:
        live(argv, env=environment(plan, os.environ) | count.environment(), log=log)
    except StepFailed as error:
        raise explained(error, log.read_text(errors="replace"), count.every) from None


def configure_argv(plan: Plan, project: Path) -> tuple[str, ...]:
    return (
        *("cmake", "-G", "Ninja", "-S", str(project), "-B", str(build_folder(plan))),
        *("-DCMAKE_BUILD_TYPE=Release", "-DSKBUILD_SCRIPTS_DIR=scripts"),
        *(f"-D{name}={value}" for name, value in plan.defines.items()),
    )


def build_wheel(plan: Plan, project: Path, stage: Path, log: Path) -> tuple[Path, dict[str, int]]:
    """Run scikit-build-core on `project`; return the wheel in `stage` and sccache's counts.

    The estimate of the remaining time is from the `build.json` beside `log`, if there is one.
    """
    count = jobs(len(os.sched_getaffinity(0)), available_memory())
    env = environment(plan, os.environ) | count.environment()
    tags = f"py3-none-{plan.platform_tag}"  # scikit-build-core takes these on the command line only
    argv = (
        *(sys.executable, "-m", "build", "--wheel", "--no-isolation"),
        *("--config-setting", f"wheel.tags={tags}", "--outdir", str(stage), str(project)),
    )
    costs = last_costs(build_folder(plan), log.with_name("build.json"))
    with compiler_cache(env) as cached_env:
        compile_all(argv, cached_env, log, costs, count.cuda if plan.cuda else count.every)
        counts = cache_counts(cached_env)
    return one_wheel(stage, log), counts


def one_wheel(stage: Path, log: Path) -> Path:
    wheels = list(stage.glob("*.whl"))
    if len(wheels) != 1:
        raise Refused(f"the build left {len(wheels)} wheels in {stage}, expected one; see {log}")
    return wheels[0]


def compile_all(
    argv: tuple[str, ...],
    env: Mapping[str, str],
    log: Path,
    costs: Mapping[str, float],
    count: int,
    cwd: Path | None = None,
) -> None:
    with watching(costs) as watcher:
        try:
            live(argv, env=env, cwd=cwd, log=log, show=watcher.show)
        except StepFailed as error:
            unseen = watcher.unseen()
            failed = StepFailed(f"{error}\n{indented(unseen)}" if unseen else str(error))
            raise explained(failed, watcher.failures.reason(), count) from None


def explained(error: StepFailed, said: str, count: int) -> Exception:
    """A failed build by who has to act. `count`: how many of the biggest compilers ran at once."""
    if "No space left on device" in said or shutil.disk_usage(ROOT).free < FULL:
        return MachineLacks(f"the disk is full; make room and run again to go on\n{error}")
    if KILLED.search(said):
        return MachineLacks(
            f"a compiler was killed, most likely out of memory with {count} at once; "
            f"{advice(count)}\n{error}"
        )
    return error


def advice(count: int) -> str:
    if count == 1:
        return "free some memory and run again to go on"
    fewer = count // 2
    cores = ",".join(str(core) for core in sorted(os.sched_getaffinity(0))[:fewer])
    return f"free some, or try {fewer} at once: taskset -c {cores} hostwheel build …"


@contextmanager
def compiler_cache(env: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """An sccache server of this build's own, so that its CPU time is ours and it ends with us."""
    with tempfile.TemporaryDirectory(prefix="hostwheel-") as folder:  # a socket's path is short
        ours = dict(env) | {"SCCACHE_SERVER_UDS": f"{folder}/socket"}
        server = start_server(ours, Path(folder, "log"))
        try:
            wait_for(Path(folder, "socket"), server, Path(folder, "log"))
            yield ours
            # Unlike terminate, this lets it finish what it is writing into the cache.
            capture(("sccache", "--stop-server"), env=ours)
        finally:
            server.terminate()
            server.wait()


def start_server(env: Mapping[str, str], log: Path) -> "subprocess.Popen[str]":
    as_server = dict(env) | {"SCCACHE_START_SERVER": "1", "SCCACHE_NO_DAEMON": "1"}
    with log.open("wb") as sink:
        return start(("sccache",), env=as_server, stdout=sink)


def wait_for(socket: Path, server: "subprocess.Popen[str]", log: Path, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not socket.exists():
        if server.poll() is not None or time.monotonic() > deadline:
            said = log.read_text(errors="replace").strip() or "no answer"
            raise MachineLacks(f"the compiler cache (sccache) does not start: {said}")
        time.sleep(0.05)


def cache_counts(env: Mapping[str, str]) -> dict[str, int]:
    said = capture(("sccache", "--show-stats", "--stats-format=json"), env=env)
    return cache_stats(json.loads(said))


def cache_stats(said: Mapping[str, Any]) -> dict[str, int]:
    """Compilations asked for, found in the cache, and not found."""
    stats = said["stats"]
    return {
        "compilations": stats["requests_executed"],
        "hits": sum(stats["cache_hits"]["counts"].values()),
        "misses": sum(stats["cache_misses"]["counts"].values()),
    }
