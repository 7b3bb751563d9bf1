"""The code in a finished wheel against the plan: instructions, and machine code for GPUs."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from hostwheel.build.evidence import write_symbols
from hostwheel.build.product import instructions, unpack_wheel
from hostwheel.errors import Refused
from tests.plans import AVX512, LIB, PROOFS, plan_for, write_wheel
from tests.products import CUDA, PLAN, built, problems, unpacked

pytest_plugins = ["tests.product_fixtures"]


@pytest.mark.parametrize(
    ("name", "code"),
    [("libllama.so", AVX512), ("libllama.so", PROOFS["GGML_AVX2"]), ("llama-server", AVX512)],
)
def test_instructions_outside_the_cpu_backend_are_refused(
    tmp_path: Path, files: Mapping[str, bytes], name: str, code: str
) -> None:
    """A15: every file is looked at."""
    wheel = {**files, **built(tmp_path, name, code)}
    feature = "avx512f" if code == AVX512 else "avx2"
    (found,) = problems(tmp_path, wheel)
    assert found.startswith(f"{name} has 1 {feature} instructions, which are not planned, first ")


def test_an_instruction_beyond_the_plan_is_refused_in_the_cpu_backend(
    tmp_path: Path, files: Mapping[str, bytes]
) -> None:
    """A1, A2, A16"""
    code = "\n".join((*PROOFS.values(), AVX512))
    (found,) = problems(tmp_path, {**files, **built(tmp_path, "libggml-cpu.so", code)})
    assert "libggml-cpu.so has 1 avx512f instructions, which are not planned" in found
    assert "'vpaddd zmm0,zmm0,zmm0' at 0x" in found


# With AVX the compiler writes SSE4.2's instructions as AVX: see the next test.
@pytest.mark.parametrize("option", sorted({*PLAN.backends[0].options} - {"GGML_SSE42"}))
def test_an_option_that_left_no_instruction_is_refused(
    tmp_path: Path, files: Mapping[str, bytes], option: str
) -> None:
    code = "\n".join(text for name, text in PROOFS.items() if name != option)
    (found,) = problems(tmp_path, {**files, **built(tmp_path, "libggml-cpu.so", code)})
    assert found.endswith(f" instruction, but {option} is ON")


def test_a_baseline_cpu_backend_under_an_sse42_label_is_refused(
    tmp_path: Path, files: Mapping[str, bytes]
) -> None:
    def found(code: str) -> list[str]:
        folder = tmp_path / (code or "baseline")
        wheel = {**files, **built(folder, "libggml-cpu.so", code)}
        product = unpacked(write_wheel(folder / "x.whl", wheel), folder)
        return list(instructions(plan_for("cpu-sse42"), product))

    assert found(PROOFS["GGML_SSE42"]) == []
    assert found("") == ["libggml-cpu.so has no ssse3 or avx instruction, but GGML_SSE42 is ON"]


# miniaudio's FLAC decoder, which asks CPUID, and functions that nobody vouches for
@pytest.mark.parametrize(
    ("name", "functions", "passes"),
    [
        ("libmtmd.so", ("ma_dr_flac__clz", "ma_dr_flac__seek"), True),
        ("libmtmd.so", ("ma_dr_flac__clz", "clip_encode"), False),
        ("libllama.so", ("ma_dr_flac__clz",), False),
    ],
)
def test_code_that_asks_the_cpu_passes_function_by_function(
    tmp_path: Path,
    files: Mapping[str, bytes],
    name: str,
    functions: tuple[str, ...],
    passes: bool,
) -> None:
    code = "\n".join(lzcnt_in(function) for function in functions)
    found = problems(tmp_path, {**files, **built(tmp_path, name, code)})
    assert passes == (found == [])
    assert all(f"{name} has {len(functions)} abm instructions" in line for line in found)


def lzcnt_in(function: str) -> str:
    return (
        f".type {function}, @function\n{function}:\n lzcnt %eax, %eax\n ret\n"
        f".size {function}, . - {function}\n"
    )


def test_a_file_that_was_not_built_here_is_refused(
    tmp_path: Path, files: Mapping[str, bytes]
) -> None:
    """Its build id leads to no file of the build folder."""
    wheel = write_wheel(tmp_path / PLAN.wheel, files)
    product = unpack_wheel(wheel, tmp_path / "unpacked", tmp_path / "symbols")
    (tmp_path / "bin").mkdir()
    with pytest.raises(Refused, match=r"libggml-base\.so \(build id [0-9a-f]{40}\) has no twin"):
        write_symbols(product, tmp_path / "bin")


def test_a_baseline_cpu_backend_under_an_avx2_label_is_refused(
    tmp_path: Path, files: Mapping[str, bytes]
) -> None:
    """A21: every option of the plan is missed."""
    found = problems(tmp_path, {**files, **built(tmp_path, "libggml-cpu.so")})
    assert len(found) == len(PLAN.backends[0].options) == 6


# machine code


def test_a_cpu_build_that_claims_cuda_is_refused(
    tmp_path: Path, cuda_files: Mapping[str, bytes]
) -> None:
    """F6"""
    wheel = {name: content for name, content in cuda_files.items() if "ggml-cuda" not in name}
    assert problems(tmp_path, wheel, CUDA) == [
        f"{LIB}/libggml-cuda.so is missing",
        "GPU code found: [], planned: [('cubin', '86')]",
    ]


@pytest.mark.parametrize(
    ("code", "found"),
    [("sm_89", [("cubin", "89")]), ("ptx", [("cubin", "86"), ("ptx", "86")])],
)
def test_code_for_another_gpu_and_ptx_are_refused(
    tmp_path: Path,
    cuda_files: Mapping[str, bytes],
    gpu_code: Mapping[str, bytes],
    code: str,
    found: list[tuple[str, str]],
) -> None:
    """B1, B3, B6"""
    wheel = {**cuda_files, f"{LIB}/libggml-cuda.so": gpu_code[code]}
    assert problems(tmp_path, wheel, CUDA) == [
        f"GPU code found: {found}, planned: [('cubin', '86')]"
    ]


def test_gpu_code_in_a_cpu_wheel_is_refused(
    tmp_path: Path, files: Mapping[str, bytes], gpu_code: Mapping[str, bytes]
) -> None:
    found = problems(tmp_path, {**files, f"{LIB}/libggml-cuda.so": gpu_code["sm_86"]})
    assert "GPU code found: [('cubin', '86')], planned: []" in found
    assert f"{LIB}/libggml-cuda.so does not belong into the wheel" in found
