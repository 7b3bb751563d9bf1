import subprocess
from pathlib import Path

import pytest

from hostwheel.artifact.dispatch import asks
from tests.natives import assembled, compiled, the_file

CLONES = """
__attribute__((target_clones("default", "avx2", "avx512f")))
void add(int *x, int n) { for (int i = 0; i < n; i++) x[i] += 3; }
void plain(void) { __asm__("vpaddd %zmm1, %zmm2, %zmm3"); }
"""

# `lesser` is what the resolver hands out where the CPU has nothing.
IFUNC = """
static void best(void) { __asm__("vpaddd %%zmm1, %%zmm2, %%zmm3"); }
static void lesser(void) { __asm__("%s"); }
static void outside(void) { __asm__("vpaddd %%zmm1, %%zmm2, %%zmm3"); }
static void *choose(void) {
    int a = 7, b, c, d;
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "=c"(c), "=d"(d));
    return b & 1 << 16 ? best : lesser;
}
void work(void) __attribute__((ifunc("choose")));
void (*other(void))(void) { return outside; }
"""

SCORED = """
%s
int ggml_backend_score(void) { %s return 1; }
void compute(void) { __asm__("vpaddd %%zmm1, %%zmm2, %%zmm3"); }
"""
AVX512 = '__asm__("vpaddd %zmm1, %zmm2, %zmm3");'


def evidence(path: Path) -> dict[str | None, str | None]:
    """What excuses AVX-512, by function."""
    code = the_file(path).code
    assert code is not None
    return {spot.function: spot.evidence for spot in code.used["avx512f"].spots}


def test_target_clones_are_chosen_and_their_neighbour_is_not(tmp_path: Path) -> None:
    path = compiled(tmp_path, CLONES, "-O3", "-lgcc")
    found = evidence(path)
    assert found["plain"] is None
    (clone,) = (name for name in found if name and name.startswith("add."))
    assert found[clone] == "target_clones: add.resolver chooses it by what the CPU has"
    subprocess.run(["strip", path], check=True)
    assert sum(1 for each in evidence(path).values() if each) == 1
    assert evidence(path)["plain"] is None


@pytest.mark.parametrize("stripped", [False, True])
def test_what_an_ifunc_resolver_hands_out(tmp_path: Path, stripped: bool) -> None:
    path = compiled(tmp_path, IFUNC % "nop", *(["-s"] if stripped else []))
    found = list(evidence(path).values())  # by address: best, outside
    assert found[1] is None
    assert found[0] is not None
    assert found[0].startswith("ifunc: the resolver of ")


def test_a_resolver_without_a_lesser_choice_proves_nothing(tmp_path: Path) -> None:
    path = compiled(tmp_path, IFUNC % "vpaddd %zmm1, %zmm2, %zmm4")
    assert set(evidence(path).values()) == {None}


def test_a_question_elsewhere_excuses_nothing(tmp_path: Path) -> None:
    path = assembled(tmp_path, asks="cpuid", works="vpaddd %zmm1, %zmm2, %zmm3")
    assert evidence(path) == {"works": None}


def test_a_name_like_a_clone_without_resolver_proves_nothing(tmp_path: Path) -> None:
    source = f'void f(void) __asm__("add.avx512f"); void f(void) {{ {AVX512} }} void add(void) {{}}'
    assert evidence(compiled(tmp_path, source)) == {"add.avx512f": None}


def test_a_scored_backend_is_gated(tmp_path: Path) -> None:
    reason = "ggml backend variant: used only where its ggml_backend_score says yes"
    assert evidence(compiled(tmp_path, SCORED % ("", ""))) == {"compute": reason}


def test_what_runs_before_the_score_is_not_gated(tmp_path: Path) -> None:
    early = f"__attribute__((constructor)) static void early(void) {{ {AVX512} }}"
    found = evidence(compiled(tmp_path, SCORED % (early, AVX512)))
    assert (found["early"], found["ggml_backend_score"]) == (None, None)
    assert found["compute"] is not None


@pytest.mark.parametrize(
    "name",
    [
        *("__cpu_model", "__cpu_indicator_init@GCC_4.8.0", "getauxval", "cpuinfo_initialize"),
        *("IsProcessorFeaturePresent", "sysctlbyname", "_ZN2cv20checkHardwareSupportEi"),
    ],
)
def test_imports_that_ask(name: str) -> None:
    assert asks(("malloc", name))


def test_imports_that_do_not_ask(tmp_path: Path) -> None:
    assert not asks(("malloc", "ggml_cpu_has_avx2", "sysconf", "my_cpu_model"))
    code = the_file(assembled(tmp_path, works="vpaddd %zmm1, %zmm2, %zmm3")).code
    assert code is not None
    assert not code.asks
    asking = compiled(tmp_path, "extern int __cpu_model; int f(void) { return __cpu_model; }")
    found = the_file(asking).code
    assert found is not None
    assert found.asks
