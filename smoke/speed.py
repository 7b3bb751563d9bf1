"""Is a build as fast as ggml compiled for the very machine that it runs on?

`python -m smoke.speed OURS OTHERS MODEL` compares two folders of libraries, each with llama-bench.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import comb
from pathlib import Path
from statistics import median

PAIRS = 15
FLOOR = 0.95  # of the native build's tokens a second
CONFIDENCE = 0.95

# The features that an option of ggml-cpu/CMakeLists.txt compiles in, in archspec's names. The
# macro that GCC defines for each is the name in capitals; the underscores vary.
OF_GGML = frozenset(
    (
        *("sse3", "ssse3", "sse4_1", "sse4_2", "popcnt", "avx", "f16c", "fma", "bmi2", "avx2"),
        *("avx_vnni", "avx512f", "avx512cd", "avx512vl", "avx512dq", "avx512bw", "avx512vbmi"),
        *("avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16"),
    )
)

TOOLS = {
    "g++": "apt-get install g++",
    "cmake": "uv pip install cmake",
    "ninja": "uv pip install ninja",
}
# As a project of its own ggml wants files that the source archive leaves out.
PROJECT = """\
cmake_minimum_required(VERSION 3.14)
project(native C CXX)
add_subdirectory({ggml} ggml)
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Speed:
    """Tokens a second."""

    prompt: float
    generation: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """Where the median lies with a probability of CONFIDENCE at least, and that of the sample."""

    low: float
    median: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3f} ({self.low:.3f} to {self.high:.3f})"


def search_path() -> str:
    """Where gcc, cmake and ninja are looked for: beside this Python, then on the PATH."""
    return os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))


def missing_tools() -> list[str]:
    """What is needed to build ggml and is not here, and how to get it."""
    return [
        f"{tool} ({how})"
        for tool, how in TOOLS.items()
        if not shutil.which(tool, path=search_path())
    ]


def native_features() -> frozenset[str]:
    """Those of OF_GGML that `-march=native` compiles in here. OSError without gcc."""
    argv = ("gcc", "-march=native", "-dM", "-E", "-x", "c", "/dev/null")
    said = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    return compiled_in(said)


def compiled_in(macros: str) -> frozenset[str]:
    """Features in lines of `#define __AVX2__ 1`, as the preprocessor's -dM prints them."""
    seen = {line.split()[1].replace("_", "").lower() for line in macros.splitlines()}
    return frozenset(feature for feature in OF_GGML if feature.replace("_", "") in seen)


def difference(planned: Collection[str], native: Collection[str]) -> str:
    """Why the two builds could not be compared; nothing where they can."""
    more, less = sorted({*native} - {*planned}), sorted({*planned} - {*native})
    parts = [f"has {', '.join(more)} as well"] if more else []
    parts += [f"lacks {', '.join(less)}"] if less else []
    return f"a native build on this CPU {' and '.join(parts)}" if parts else ""


def build_native(source: Path, defines: Mapping[str, str], folder: Path) -> Path:
    """Compile libggml-cpu.so for this machine, with the planned options else; kept in `folder`.

    Two minutes on two cores, next to nothing when it is there. CalledProcessError on failure.
    """
    options = {name: value for name, value in defines.items() if name.startswith("GGML_")}
    options |= {"GGML_NATIVE": "ON", "GGML_CUDA": "OFF", "CMAKE_BUILD_TYPE": "Release"}
    options |= {"CMAKE_C_COMPILER": "gcc", "CMAKE_CXX_COMPILER": "g++"}
    options |= {"BUILD_SHARED_LIBS": "ON", "CMAKE_PLATFORM_NO_VERSIONED_SONAME": "ON"}
    listed = [f"-D{name}={value}" for name, value in options.items()]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "CMakeLists.txt").write_text(PROJECT.format(ggml=source / "ggml"))
    build, clean = str(folder / "build"), {"PATH": search_path()}  # no CFLAGS of somebody's
    cmake = str(shutil.which("cmake", path=clean["PATH"]))
    configure = (cmake, "-G", "Ninja", "-S", str(folder), "-B", build, *listed)
    subprocess.run(configure, check=True, env=clean)
    subprocess.run((cmake, "--build", build, "--target", "ggml-cpu"), check=True, env=clean)
    return next(folder.rglob("libggml-cpu.so"))


def measure(libraries: Path, model: Path) -> Speed:
    """One run of llama-bench in `libraries`, on one thread: waiting for others is no speed."""
    asked = ("-p", "64", "-n", "16", "-r", "1", "-t", "1", "-o", "json")
    argv = (libraries / "llama-bench", "-m", model, *asked)
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    prompt, generation = (float(run["avg_ts"]) for run in json.loads(done.stdout))
    return Speed(prompt=prompt, generation=generation)


def measured_pairs(ours: Path, others: Path, model: Path) -> Sequence[tuple[Speed, Speed]]:
    """PAIRS of (ours, others), each measured side by side, every second one the other way round."""
    pairs = []
    for at in range(PAIRS):
        if at % 2:
            theirs = measure(others, model)
            pairs.append((measure(ours, model), theirs))
        else:
            pairs.append((measure(ours, model), measure(others, model)))
    return pairs


def ratios(pairs: Sequence[tuple[Speed, Speed]]) -> Mapping[str, Interval]:
    """Ours over theirs, for the prompt and for generation."""
    return {
        "prompt": median_interval([ours.prompt / theirs.prompt for ours, theirs in pairs]),
        "generation": median_interval(
            [ours.generation / theirs.generation for ours, theirs in pairs]
        ),
    }


def median_interval(values: Sequence[float]) -> Interval:
    """From the k-th smallest to the k-th largest value, whatever their distribution.

    A value is as likely below the true median as above it. So fewer than k of n are below it with
    the probability of fewer than k heads in n throws. ValueError for fewer than six values.
    """
    n = len(values)
    unlikely = (1 - CONFIDENCE) / 2 * 2**n
    k = sum(ways <= unlikely for ways in accumulate(comb(n, heads) for heads in range(n)))
    if not k:
        raise ValueError(f"{n} values say nothing about their median with {CONFIDENCE:.0%}")
    ordered = sorted(values)
    return Interval(low=ordered[k - 1], median=median(ordered), high=ordered[n - k])


def too_slow(found: Mapping[str, Interval]) -> list[str]:
    """A line for each speed that is surely below the floor."""
    return [
        f"{what}: {ratio} of the native build's speed, surely below {FLOOR}"
        for what, ratio in found.items()
        if ratio.high < FLOOR
    ]


if __name__ == "__main__":
    compared = ratios(measured_pairs(*map(Path, sys.argv[1:4])))
    print(json.dumps({what: str(ratio) for what, ratio in compared.items()}, indent=1))
