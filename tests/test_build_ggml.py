"""What ggml's real CMake files do with other options than ours: each known trap is caught."""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from hostwheel.build.cmake import Configured, plan001, plan002, read_configured
from hostwheel.build.engine import environment
from hostwheel.build.project import project_folder
from hostwheel.facts import isa
from hostwheel.plan.data import file_hashes, find_data
from hostwheel.plan.defines import ROOT, tree
from hostwheel.plan.patches import patch_hashes
from hostwheel.plan.plan import Plan, make_plan
from hostwheel.plan.recipe import load_recipe
from tests.builds import CHECKOUT, Built

pytestmark = [pytest.mark.build, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def plan(cpu_avx2: Built) -> Plan:
    """cpu-avx2, whose prepared source and project folder the build has left."""
    return plan_of(str(cpu_avx2.evidence["recipe"]))


def plan_of(wanted: str) -> Plan:
    data = find_data()
    recipe = load_recipe(wanted, data.recipes)
    patches = patch_hashes(data.patches, recipe.source.version)
    return make_plan(recipe, patches, file_hashes(data.locks, "*.txt"))


def configure(plan: Plan, folder: Path, defines: Mapping[str, str], **extra: str) -> Configured:
    """Configure the real project with `defines` instead of the planned ones."""
    env = {**environment(plan, os.environ), **extra}
    argv = [
        str(ROOT / "build-tools" / "bin" / "cmake"),
        "-G",
        "Ninja",
        "-S",
        str(project_folder(plan)),
    ]
    argv += ["-B", str(folder), "-DCMAKE_BUILD_TYPE=Release", "-DSKBUILD_SCRIPTS_DIR=/x"]
    argv += [f"-D{name}={value}" for name, value in defines.items() if "LAUNCHER" not in name]
    done = subprocess.run(
        argv, env={k: v for k, v in env.items() if v}, capture_output=True, text=True, check=True
    )
    return read_configured(folder, done.stdout + done.stderr)


def without(plan: Plan, *prefixes: str) -> dict[str, str]:
    return {k: v for k, v in plan.defines.items() if not k.startswith(prefixes)}


ISA = ("GGML_SSE", "GGML_AVX", "GGML_FMA", "GGML_F16C", "GGML_BMI2", "GGML_AMX", "GGML_NATIVE")


def test_the_planned_options_pass_both_checks(plan: Plan, tmp_path: Path) -> None:
    done = configure(plan, tmp_path / "b", plan.defines)
    problems = [problem for problem in plan001(plan, done) if "LAUNCHER" not in problem]
    assert problems == []
    assert list(plan002(plan, done)) == []


def test_native_ignores_every_option_and_is_caught(plan: Plan, tmp_path: Path) -> None:
    done = configure(plan, tmp_path / "b", {**plan.defines, "GGML_NATIVE": "ON"})
    assert any("-march=native is not planned" in problem for problem in plan002(plan, done))
    assert any("GGML_NATIVE is planned as 'OFF'" in problem for problem in plan001(plan, done))


def test_switching_features_off_without_native_off_is_caught(plan: Plan, tmp_path: Path) -> None:
    """The flags of the best-known publisher's CUDA workflow: they configure to -march=native."""
    defines = without(plan, *ISA) | dict.fromkeys(("GGML_AVX2", "GGML_FMA", "GGML_F16C"), "OFF")
    done = configure(plan, tmp_path / "b", defines, SOURCE_DATE_EPOCH="")
    assert any("-march=native is not planned" in problem for problem in plan002(plan, done))


def test_a_source_date_epoch_that_turns_avx2_off_is_caught(plan: Plan, tmp_path: Path) -> None:
    defines = without(plan, *ISA) | {"GGML_NATIVE": "OFF"}
    done = configure(plan, tmp_path / "b", defines, SOURCE_DATE_EPOCH="1")
    assert any("GGML_AVX2 is planned as 'ON'" in problem for problem in plan001(plan, done))


def test_native_off_alone_leaves_the_features_to_a_default(plan: Plan, tmp_path: Path) -> None:
    defines = without(plan, "GGML_AVX_VNNI", "GGML_AVX2") | {"GGML_NATIVE": "OFF"}
    done = configure(plan, tmp_path / "b", defines, SOURCE_DATE_EPOCH="1")
    assert any("GGML_AVX2 is planned as 'ON'" in problem for problem in plan001(plan, done))


def test_an_option_that_nothing_reads_is_caught(plan: Plan, tmp_path: Path) -> None:
    done = configure(plan, tmp_path / "b", {**plan.defines, "LLAMA_CUBLASS": "ON"})
    assert any(
        problem.startswith("LLAMA_CUBLASS is planned, but nothing")
        for problem in plan001(plan, done)
    )


def test_our_table_of_cpu_variants_is_upstreams(plan: Plan) -> None:
    text = (tree(plan.source) / "src/vendor/llama.cpp/ggml/src/CMakeLists.txt").read_text()
    x86 = text[text.index('(GGML_SYSTEM_ARCH STREQUAL "x86")\n        ggml_add_cpu') :]
    x86 = x86[: x86.index('elseif(GGML_SYSTEM_ARCH STREQUAL "ARM")')]
    found = re.findall(r"ggml_add_cpu_backend_variant\((\w+)([^)]*)\)", x86)
    assert {tag: set(options.split()) for tag, options in found} == {
        tag: set(options) for tag, options in isa.VARIANTS.items()
    }


def test_with_tensor_cores_only_heads_of_40_and_72_reach_the_tile_kernels(plan: Plan) -> None:
    """What patches/0004 rests on, in fattn.cu: ggml_cuda_get_best_fattn_kernel."""
    cuda = tree(plan.source) / "src/vendor/llama.cpp/ggml/src/ggml-cuda"
    text = (cuda / "fattn.cu").read_text()
    start = text.index("if (turing_mma_available(cc) && Q->ne[0] != 40 && Q->ne[0] != 72) {\n")
    block = text[start : text.index("\n    }\n", start)]
    returned = set(re.findall(r"return (\w+);", block))
    assert returned == {"BEST_FATTN_KERNEL_VEC", "BEST_FATTN_KERNEL_MMA_F16"}
    assert block.endswith("        return BEST_FATTN_KERNEL_MMA_F16;")
    assert "BEST_FATTN_KERNEL_TILE;" not in text[:start]
    callers = [path.name for path in cuda.glob("*.cu") if "attn_ext_tile(ctx" in path.read_text()]
    assert callers == ["fattn.cu"]


def test_everything_compiles_each_file_apart_and_every_kernel(
    a10g_draft: Built, tmp_path: Path
) -> None:
    """The switch that turns our savings off: the same files as upstream would compile."""
    recipe = tmp_path / "a10g-draft.toml"  # of the same name: the draft has left its project
    draft = (CHECKOUT / "tests" / "data" / "a10g-draft.toml").read_text()
    recipe.write_text(draft + "everything = true\n")
    plan = plan_of(str(recipe))
    cuda = tree(plan.source) / "src/vendor/llama.cpp/ggml/src/ggml-cuda"
    kernels = {path.name for path in cuda.glob("template-instances/fattn-tile*.cu")}
    done = configure(plan, tmp_path / "b", plan.defines)
    compiled = {Path(each["file"]).name for each in done.commands}
    assert not [name for name in compiled if name.startswith("unity_") and name.endswith(".cu")]
    assert kernels <= compiled
    assert {path.name for path in cuda.glob("*.cu")} <= compiled
    by_default = {Path(each["file"]).name for each in a10g_draft.evidence["compile_commands"]}
    assert not kernels <= by_default
