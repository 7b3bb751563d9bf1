"""What the CPU says of itself, against what the kernel and the emulator say."""

import json
import mmap
import subprocess
import sys
from pathlib import Path

import pytest

from hostwheel.facts import cpuid
from hostwheel.smoke.emulate import EMULATOR, emulated
from tests.plans import need

ASK = "import json, cpuid; cpu = cpuid.Cpu(); print(json.dumps([cpu.brand, *cpu.features]))"
FOLDER = Path(cpuid.__file__).parent
WESTMERE = "cx16 lahf_lm mmx pclmulqdq popcnt sse sse2 sse3 sse4_1 sse4_2 ssse3"


# On Zen 5 the kernel says "RDSEED32 is broken" (AMD-SB-7055) and no longer names it, while a guest
# still finds it in CPUID. ggml does not use it.
BROKEN = {"rdseed"}


def kernel_flags() -> set[str]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    flags = next(line for line in lines if line.startswith("flags")).split(":")[1].split()
    return {"sse3" if flag == "pni" else flag for flag in flags}


def asked(cpu: str) -> tuple[str, set[str]]:
    """Brand and features as a Python on that CPU model finds them."""
    need(EMULATOR, "apt-get install qemu-user")
    argv = emulated((sys.executable, "-c", ASK), cpu)
    said = subprocess.run(argv, check=True, capture_output=True, text=True, cwd=FOLDER).stdout
    brand, *features = json.loads(said)
    return brand, set(features)


def test_the_features_are_those_that_the_kernel_names() -> None:
    cpu = cpuid.Cpu()
    named = kernel_flags() & cpuid.FEATURES.keys()
    assert named <= set(cpu.features) <= named | BROKEN
    assert list(cpu.features) == sorted(cpu.features)
    assert {"mmx", "sse", "sse2"} <= set(cpu.features)


def test_the_brand_is_the_one_that_the_kernel_names() -> None:
    assert f": {cpuid.Cpu().brand}\n" in Path("/proc/cpuinfo").read_text()


def test_the_features_follow_the_emulated_cpu() -> None:
    brand, features = asked("Westmere")
    assert brand == "Westmere E56xx/L56xx/X56xx (Nehalem-C)"
    assert {*WESTMERE.split()} <= features
    assert not {name for name in features if name.startswith(("avx", "fma", "f16c", "bmi"))}


def test_zen_2_has_avx2_and_no_avx512() -> None:
    brand, features = asked("EPYC-Rome")
    assert brand == "AMD EPYC-Rome Processor"
    assert {"avx", "avx2", "fma", "f16c", "bmi1", "bmi2", "abm", "movbe", "sse4a"} <= features
    assert not {name for name in features if name.startswith("avx512")}


@pytest.mark.parametrize("masked", ["fma", "bmi2", "movbe", "f16c", "abm"])
def test_a_masked_feature_is_missed_alone(masked: str) -> None:
    """A19"""
    assert asked("EPYC-Rome")[1] - asked(f"EPYC-Rome,-{masked}")[1] == {masked}


def test_without_the_systems_state_there_is_no_avx() -> None:
    """XCR0, which the operating system sets, counts as much as the bit of the CPU."""
    features = asked("EPYC-Rome,-xsave")[1]
    assert not {"avx", "avx2", "fma", "f16c", "xsave"} & features
    assert {"bmi2", "sse4_2"} <= features


def test_where_no_code_can_be_made_the_kernel_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = cpuid.Cpu()

    def forbidden(code: bytes) -> mmap.mmap:
        raise PermissionError(13, "mprotect")

    monkeypatch.setattr(cpuid, "_executable", forbidden)
    monkeypatch.setattr(cpuid, "_features", lambda page: pytest.fail("it was asked after all"))
    assert set(cpuid.Cpu().features) == set(expected.features) & kernel_flags()
    assert cpuid.Cpu().brand == expected.brand


def test_another_architecture_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(OSError, match="not an x86-64 CPU: aarch64"):
        cpuid.Cpu()


def test_missing_keeps_the_order_that_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpuid, "_features", lambda page: ("avx", "sse3"))
    assert cpuid.missing(("fma", "avx", "avx2", "sse3")) == ("fma", "avx2")
    assert cpuid.missing(()) == ()
