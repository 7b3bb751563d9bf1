"""What a machine must have, as the properties that installers ask about: PEPs 817 and 850, drafts.

They say what the files need, never less: a copy that is chosen has to run.
"""

from collections.abc import Iterator, Sequence

from packaging.version import Version

from hostwheel.facts.cuda import RELEASES
from hostwheel.publish.catalog import Needs

# System V ABI, AMD64 supplement, table 3.1, in archspec's names: what each level adds. The first
# feature of each is the one for which code is compiled for that level.
LEVELS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("v2", ("sse4_2", "cx16", "lahf_lm", "popcnt", "sse3", "sse4_1", "ssse3")),
    ("v3", ("avx2", "abm", "avx", "bmi1", "bmi2", "f16c", "fma", "movbe")),
    ("v4", ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")),
)


def properties_of(needs: Needs) -> tuple[str, ...]:
    """Lines "namespace :: feature :: value". None where any x86-64 CPU will do."""
    return (*nvidia(needs), *x86_64(needs.features))


def nvidia(needs: Needs) -> Iterator[str]:
    """The version is that of the CUDA whose driver is enough, not of the toolkit."""
    if needs.driver and needs.architecture:
        yield f"nvidia :: cuda_version_lower_bound :: {cuda_of(needs.driver)}"
        # 120a runs on compute capability 12.0 only, which uv does not ask about: it knows 120. The
        # machine for which that would be too little, GB10 with 12.1, is no x86-64 one.
        yield f"nvidia :: sm_arch :: {needs.architecture.rstrip('a')}_real"


def cuda_of(driver: str) -> str:
    """The CUDA version that a driver is the first for, or newer than: 580.65.06 → 13.0."""
    older = [name for name, each in RELEASES.items() if Version(each.driver) <= Version(driver)]
    return max(older, key=Version)


def x86_64(features: Sequence[str]) -> Iterator[str]:
    """The highest level that was compiled for, and each feature that it does not bring.

    uv 0.13.9 knows levels only, and passes over a copy that asks for more, such as AVX-512 with
    VNNI: to name only the level would hand it to CPUs that cannot run it.
    """
    level, brought = "", set[str]()
    for name, added in LEVELS:
        if added[0] in features:
            level = name
            brought.update(added)
    if level:
        yield f"x86_64 :: level :: {level}"
    for feature in features:
        if feature not in brought:
            yield f"x86_64 :: {feature} :: on"
