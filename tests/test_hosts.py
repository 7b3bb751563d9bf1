"""Our hosts and feature tables against archspec's data and ggml's own CMake file."""

from pathlib import Path

import pytest
from archspec.cpu import TARGETS

from hostwheel.facts import cpuid, isa
from hostwheel.facts.cuda import TOOLKITS, machine_code_for
from hostwheel.plan.recipe import read_host

HOSTS = sorted((Path(__file__).parents[1] / "recipes" / "hosts").glob("*.toml"))
X86_TARGETS = [
    target
    for name, target in TARGETS.items()
    if any(ancestor.name == "x86_64" for ancestor in target.ancestors)
]


@pytest.mark.parametrize("file", HOSTS, ids=lambda file: file.stem)
def test_a_host_has_the_features_of_its_microarchitecture(file: Path) -> None:
    host = read_host(file)
    assert set(host.cpu.features) == TARGETS[host.cpu.microarchitecture].features


def test_the_a10g_host_has_avx2_and_no_avx512() -> None:
    features = read_host(next(file for file in HOSTS if file.stem == "aws-g5")).cpu.features
    assert {"avx2", "fma", "f16c", "bmi2"} <= set(features)
    assert not any(feature.startswith("avx512") for feature in features)


@pytest.mark.parametrize("target", X86_TARGETS, ids=lambda target: target.name)
def test_no_real_cpu_breaks_our_prerequisites(target: object) -> None:
    features = TARGETS[str(target)].features
    assert isa.missing_prerequisites(sorted(features)) == ()


def test_every_feature_of_an_option_can_be_asked_for_by_cpuid() -> None:
    for option in isa.OPTIONS:
        assert set(option.features) <= cpuid.FEATURES.keys()
        assert option.proof[0] in option.features


# llama.cpp's own table (ggml/src/CMakeLists.txt, ggml_add_cpu_backend_variant) of the same CPUs.
UPSTREAM_VARIANTS = {
    "nehalem": {"SSE42"},
    "sandybridge": {"SSE42", "AVX"},
    "ivybridge": {"SSE42", "AVX", "F16C"},
    "haswell": {"SSE42", "AVX", "F16C", "AVX2", "BMI2", "FMA"},
    "skylake_avx512": {"SSE42", "AVX", "F16C", "AVX2", "BMI2", "FMA", "AVX512"},
    "cascadelake": {"SSE42", "AVX", "F16C", "AVX2", "BMI2", "FMA", "AVX512", "AVX512_VNNI"},
    "icelake": {"SSE42", "AVX", "F16C", "AVX2", "BMI2", "FMA", "AVX512", "AVX512_VBMI"}
    | {"AVX512_VNNI"},
    "alderlake": {"SSE42", "AVX", "F16C", "AVX2", "BMI2", "FMA", "AVX_VNNI"},
    "zen4": {"SSE42", "AVX", "F16C", "AVX2", "BMI2", "FMA", "AVX512", "AVX512_VBMI"}
    | {"AVX512_VNNI", "AVX512_BF16"},
}


@pytest.mark.parametrize("name", UPSTREAM_VARIANTS)
def test_the_options_of_a_cpu_are_those_that_llama_cpp_gives_it(name: str) -> None:
    options = isa.usable_options(TARGETS[name].features)
    assert {option.name.removeprefix("GGML_") for option in options} == UPSTREAM_VARIANTS[name]


def test_only_compute_capabilities_12x_are_rewritten() -> None:
    rewritten = {sm: machine_code_for(sm) for sm in TOOLKITS["13.0"].compute}
    assert {sm for sm, real in rewritten.items() if sm != real} == {"120", "121"}
