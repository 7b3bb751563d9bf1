"""A host as captured facts: what the machine that will run the build has."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Cpu:
    """`features` is the contract (archspec names); `microarchitecture` is only where it came from.

    `emulate` is qemu-user's model of this CPU, None where it has none (it knows no AVX-512).
    """

    microarchitecture: str
    features: tuple[str, ...]
    emulate: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    """`compute` is the compute capability without its dot ("86"); `driver` the lowest version."""

    name: str
    compute: str
    driver: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """`glibc` ("2.35") and `glibcxx` (libstdc++'s newest symbol version, "3.4.30") are floors."""

    name: str
    title: str
    cpu: Cpu
    gpu: Gpu | None
    glibc: str
    glibcxx: str
