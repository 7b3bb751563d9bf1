"""The plan: pure, complete, and a name for every option that ggml would otherwise choose."""

import dataclasses
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.utils import parse_wheel_filename
from rich.console import Console

from hostwheel.errors import BadInput
from hostwheel.facts import isa
from hostwheel.plan.data import find_data
from hostwheel.plan.plan import Plan, make_plan
from hostwheel.plan.recipe import load_recipe, recipe_names
from hostwheel.plan.show import markdown, recipe_rows, show_plan, table

RECIPES = find_data().recipes
PATCHES = {"0001-some.patch": "ab" * 32}
LOCKS = {"build-tools.txt": "cd" * 32, "cuda-13.0.txt": "ef" * 32}


def plan_of(name: str) -> Plan:
    return make_plan(load_recipe(name, RECIPES), PATCHES, LOCKS)


@pytest.mark.parametrize("name", recipe_names(RECIPES))
def test_every_isa_option_is_on_or_off_by_name(name: str) -> None:
    plan = plan_of(name)
    for option in isa.OPTIONS:
        assert plan.defines[option.name] in ("ON", "OFF")
    assert plan.defines["GGML_NATIVE"] == "OFF"


@pytest.mark.parametrize("name", recipe_names(RECIPES))
def test_the_planned_names_parse(name: str) -> None:
    plan = plan_of(name)
    project, version, build, tags = parse_wheel_filename(plan.wheel)
    assert (project, str(version), build) == ("llama-cpp-python", plan.version, ())
    assert {str(tag) for tag in tags} == {f"py3-none-{plan.platform_tag}"}
    assert version.local == plan.label


LABELS = {
    "a10g": "cu130.sm86.avx2",
    "a10g-cu12": "cu129.sm86.avx2",
    "t4": "cu130.sm75.avx512.vnni",
    "l4": "cu130.sm89.avx2",
    "a100": "cu130.sm80.avx512.vnni",
    "h100": "cu130.sm90.avx2",
    "rtx50": "cu130.sm120a.avx2",
    "cpu-any": "cpu.any",
    "cpu-avx2": "cpu.avx2",
    "cpu-sse42": "cpu.sse42",
    "cpu-avx": "cpu.avx",
    "cpu-avx512": "cpu.avx512",
}


@pytest.mark.parametrize("name", recipe_names(RECIPES))
def test_the_label_says_gpu_and_cpu(name: str) -> None:
    assert plan_of(name).label == LABELS[name]


def test_a10g_plans_what_its_host_can_run() -> None:
    plan = plan_of("a10g")
    on = {name for name in plan.defines if plan.defines[name] == "ON"}
    assert {"GGML_AVX2", "GGML_FMA", "GGML_F16C", "GGML_BMI2", "GGML_CUDA", "GGML_CUDA_FA"} <= on
    assert not any(name.startswith(("GGML_AVX512", "GGML_AMX")) for name in on)
    assert plan.defines["CMAKE_CUDA_ARCHITECTURES"] == "86-real"
    assert plan.defines["GGML_CUDA_NCCL"] == "OFF"
    assert plan.requires == ("nvidia-cuda-runtime>=13,<14", "nvidia-cublas>=13,<14")
    assert plan.wheel.startswith("llama_cpp_python-0.3.36+cu130.sm86.avx2-py3-none-manylinux_")


def test_blackwell_gets_the_architecture_that_ggml_really_compiles() -> None:
    assert plan_of("rtx50").defines["CMAKE_CUDA_ARCHITECTURES"] == "120a-real"


def test_a_cpu_plan_has_nothing_of_cuda() -> None:
    plan = plan_of("cpu-avx2")
    assert plan.cuda is None
    assert plan.requires == ()
    assert plan.defines["GGML_CUDA"] == "OFF"
    assert plan.defines["HOSTWHEEL_RUNPATH"] == "$ORIGIN"
    assert not any("CUDA" in name for name in plan.engine.environment)


def test_what_looks_at_the_machine_is_off_in_every_plan() -> None:
    for name in recipe_names(RECIPES):
        defines = plan_of(name).defines
        for option in (
            *("GGML_OPENMP", "GGML_CCACHE", "GGML_BLAS", "LLAMA_OPENSSL"),
            *("LLAMA_USE_PREBUILT_UI", "LLAMA_BUILD_UI", "LLAMA_LLGUIDANCE"),
        ):
            assert defines[option] == "OFF", (name, option)


def test_features_are_exactly_what_was_compiled_in() -> None:
    assert plan_of("cpu-avx2").features == (
        *("sse3", "ssse3", "sse4_1", "sse4_2", "popcnt"),
        *("avx", "f16c", "fma", "bmi2", "avx2"),
    )
    assert "movbe" not in plan_of("cpu-avx2").features


def test_any_cpu_gets_every_variant_and_asks_for_nothing() -> None:
    plan = plan_of("cpu-any")
    assert plan.features == ()
    assert plan.defines["GGML_BACKEND_DL"] == plan.defines["GGML_CPU_ALL_VARIANTS"] == "ON"
    assert {backend.name for backend in plan.backends} < set(plan.libraries)
    haswell = next(each for each in plan.backends if each.name == "ggml-cpu-haswell")
    assert haswell.features == plan_of("cpu-avx2").features
    assert plan.backends[0].flags == ()


def test_every_other_recipe_links_its_one_backend() -> None:
    for name in set(recipe_names(RECIPES)) - {"cpu-any"}:
        plan = plan_of(name)
        assert [backend.name for backend in plan.backends] == ["ggml-cpu"]
        assert plan.defines["GGML_BACKEND_DL"] == "OFF"


def test_a_draft_says_so_in_its_label(tmp_path: Path) -> None:
    file = tmp_path / "quick.toml"
    file.write_text('host = "aws-g5"\ncuda = "13.0"\ndraft = true\n')
    plan = plan_of(str(file))
    assert plan.label == "cu130.sm86.avx2.draft"
    assert plan.defines["GGML_CUDA_FA"] == "OFF"
    assert "--Ofast-compile=max" in plan.defines["CMAKE_CUDA_FLAGS"]
    assert "--Ofast-compile" not in plan_of("a10g").defines["CMAKE_CUDA_FLAGS"]


def test_the_hash_leaves_out_the_engine_and_nothing_else() -> None:
    plan = plan_of("a10g")
    engine = dataclasses.replace(plan.engine, name="docker", image="an@sha256:0")
    assert dataclasses.replace(plan, engine=engine).hash == plan.hash
    changed = {**plan.defines, "GGML_LLAMAFILE": "OFF"}
    assert dataclasses.replace(plan, defines=changed).hash != plan.hash
    assert dataclasses.replace(plan, patches={"0001-some.patch": "00" * 32}).hash != plan.hash
    assert make_plan(load_recipe("a10g", RECIPES), PATCHES, {**LOCKS, "cuda-13.0.txt": ""}) != plan


def test_the_environment_is_ours_alone() -> None:
    environment = plan_of("a10g").engine.environment
    assert environment["PATH"].split(":")[1:] == ["/usr/bin", "/bin"]
    assert environment["CUDACXX"].startswith("/var/tmp/hostwheel/cuda-13.0.2/")
    assert re.fullmatch(r"\d+", environment["SOURCE_DATE_EPOCH"])


def test_the_json_is_flat_where_people_look() -> None:
    values = json.loads(json.dumps(plan_of("a10g").json()))
    assert values["defines"]["CMAKE_CUDA_ARCHITECTURES"] == "86-real"
    assert all(isinstance(value, str) for value in values["defines"].values())
    assert values["hash"] == plan_of("a10g").hash


def test_the_same_plan_comes_out_whatever_the_environment() -> None:
    argv = (sys.executable, "-m", "hostwheel", "plan", "a10g", "--json")
    poison = {"CMAKE_ARGS": "-DGGML_NATIVE=ON", "CXX": "clang++", "SOURCE_DATE_EPOCH": "1"}
    clean = subprocess.run(argv, capture_output=True, text=True, check=True, env={})
    poisoned = subprocess.run(argv, capture_output=True, text=True, check=True, env=poison)
    assert clean.stdout == poisoned.stdout


def test_a_tool_without_its_lock_is_refused() -> None:
    with pytest.raises(BadInput, match=r"no cuda-13\.0\.txt in the locks/ .*build-tools\.txt"):
        make_plan(load_recipe("a10g", RECIPES), PATCHES, {"build-tools.txt": ""})


def seen(plan: Plan, width: int) -> tuple[str, str]:
    """The plan, and the table of recipes with it alone, on a terminal of this width."""
    shown = []
    for show in (lambda to: show_plan(plan, to), lambda to: to.print(table(recipe_rows([plan])))):
        out = io.StringIO()
        show(Console(file=out, width=width))
        shown.append(out.getvalue())
    return shown[0], shown[1]


@pytest.mark.parametrize("width", [30, 80, 1000])
def test_nothing_is_cut_on_a_narrow_terminal(width: int) -> None:
    plan = plan_of("t4")
    for text in seen(plan, width):
        assert "…" not in text
    folded = re.sub(r"\s", "", seen(plan, width)[0])
    assert plan.hash in folded
    assert plan.wheel in folded


def test_a_label_stays_whole_at_80_columns() -> None:
    plan = plan_of("t4")
    assert plan.label in seen(plan, 80)[1]


def test_a_title_is_shown_as_it_is_written() -> None:
    plan = plan_of("cpu-any")
    host = dataclasses.replace(plan.host, title="a [/x] [red] | b\nc")
    odd = dataclasses.replace(plan, host=host)
    for text in seen(odd, 1000):
        assert "a [/x] [red] | b" in text
    assert r"| a [/x] [red] \| b c |" in markdown(recipe_rows([odd]))


def test_any_cpu_is_told_its_variants() -> None:
    text = seen(plan_of("cpu-any"), 1000)[0]
    assert re.search(r"CPU features +nothing beyond x86-64\b", text)
    assert re.search(r"CPU variants .* sse42 .* haswell ", text)
    assert "CPU variants" not in seen(plan_of("cpu-avx2"), 1000)[0]
