"""ISA001 and ISA002: what runs unasked is refused, what asks passes, the rest stays open."""

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from hostwheel.artifact.facts import Artifact, File
from hostwheel.audit.audit import judge
from hostwheel.audit.result import Finding, Standing
from hostwheel.audit.ruling import PLAIN_BACKEND, SCORE
from hostwheel.audit.target import Target
from tests.audits import (
    AVX2_PLAN,
    G5,
    HOSTS,
    NOTHING,
    V2,
    artifact,
    audited,
    found_in,
    function,
    library,
    messages,
    native_file,
    plain_wheel,
    planned_wheel,
    standing,
    using,
)
from tests.plans import AVX512, LIB, PROOFS, need, plan_for, wheel_files

PLAN = plan_for("cpu-avx2")
AVX2 = "vpaddd %ymm0, %ymm0, %ymm0"
VNNI = "vpdpbusd %zmm0, %zmm1, %zmm2"
BF16 = "vdpbf16ps %zmm0, %zmm1, %zmm2"
AMX = "tdpbssd %tmm0, %tmm1, %tmm2"
SSE = "addps %xmm0, %xmm1"
CPUID = "cpuid"


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    """What is in a wheel of the AVX2 recipe."""
    return wheel_files(PLAN, tmp_path_factory.mktemp("planned"))


def backend(folder: Path, *instructions: str, more: tuple[str, ...] = ()) -> Path:
    """ggml's plain CPU backend."""
    kernel = function("ggml_vec_dot_f32", *instructions)
    return library(folder / "libggml-cpu.so", function(PLAIN_BACKEND), kernel, *more)


def wheel_with(folder: Path, *libraries: Path) -> Path:
    return plain_wheel(folder, {f"pkg/{path.name}": path.read_bytes() for path in libraries})


# unconditional


@pytest.mark.parametrize(
    ("instruction", "feature"),
    [(AVX512, "avx512f"), (VNNI, "avx512_vnni"), (BF16, "avx512_bf16"), (AMX, "amx_int8")],
)
def test_code_of_the_build_machine_is_unfit(tmp_path: Path, instruction: str, feature: str) -> None:
    """A1, A2, A3, A6: a native build on a newer CPU."""
    report = audited(wheel_with(tmp_path, backend(tmp_path, instruction)), G5)
    (found,) = [each for each in report.findings if each.feature == feature]
    assert (report.verdict, found.standing, found.check) == ("unfit", "refused", "ISA001")
    assert (found.file, found.function) == ("pkg/libggml-cpu.so", "ggml_vec_dot_f32")
    assert found.address
    assert found.instruction
    assert feature in found.message
    assert found.remedy


@pytest.mark.parametrize("name", ["libllama.so", "libmtmd.so", "llama-server"])
def test_every_file_is_looked_at(tmp_path: Path, name: str) -> None:
    """A4, A5, A15, A16: not the CPU backend alone."""
    bad = library(tmp_path / name, function("ggml_init", "vmovups %zmm0, (%rdi)"))
    report = audited(wheel_with(tmp_path, backend(tmp_path, AVX2), bad), G5)
    (found,) = standing(report.findings, "refused", "ISA001")
    assert (found.file, found.function) == (f"pkg/{name}", "ggml_init")


def test_a_build_for_the_host_fits(tmp_path: Path) -> None:
    report = audited(wheel_with(tmp_path, backend(tmp_path, *PROOFS.values())), G5)
    assert (report.verdict, report.findings) == ("fits", ())


def test_avx_code_is_unfit_without_avx(tmp_path: Path) -> None:
    """A17, A12: any host counts, not only those with AVX2."""
    path = wheel_with(tmp_path, backend(tmp_path, "vzeroupper", AVX2))
    assert audited(path, V2).verdict == "unfit"
    assert audited(path, Target(host=HOSTS["sandybridge"])).verdict == "unfit"
    assert audited(path, G5).verdict == "fits"


def test_a_cpuid_elsewhere_in_the_backend_excuses_nothing(tmp_path: Path) -> None:
    path = backend(tmp_path, AVX512, more=(function("asks", CPUID),))
    assert audited(wheel_with(tmp_path, path), G5).verdict == "unfit"


# proved, or not decided


def test_somebody_elses_library_that_asks_is_not_decided(tmp_path: Path) -> None:
    asking = library(tmp_path / "libx.so", function("f", AVX512), function("asks", CPUID))
    silent = library(tmp_path / "silent" / "libx.so", function("f", AVX512))
    report = audited(wheel_with(tmp_path, asking), G5)
    (found,) = standing(report.findings, "undecided")
    assert (report.verdict, found.function) == ("undecided", "f")
    assert found.reason
    assert "not proved" in found.reason
    assert audited(wheel_with(tmp_path / "silent", silent), G5).verdict == "unfit"


CLONED = """\
__attribute__((target_clones("avx512f", "default"))) int sum(const int *x) {
    int total = 0;
    for (int i = 0; i < 4096; i++) total += x[i];
    return total;
}
"""


def test_target_clones_are_dismissed(tmp_path: Path) -> None:
    """The compiler's own dispatch, function by function: its neighbour is not excused by it."""
    source, path = tmp_path / "x.c", tmp_path / "libx.so"
    argv = ("gcc", "-O3", "-fPIC", "-shared", "-Wl,-rpath,$ORIGIN", str(source), "-o", str(path))
    source.write_text(CLONED)
    subprocess.run(argv, check=True)
    report = audited(wheel_with(tmp_path, path), G5)
    assert report.verdict == "fits"
    assert standing(report.findings, "dismissed", "ISA001")
    bad = f'void neighbour(void) {{ __asm__ volatile("{AVX512}"); }}\n'
    source.write_text(CLONED + bad)
    subprocess.run(argv, check=True)
    report = audited(wheel_with(tmp_path, path), G5)
    assert report.verdict != "fits"
    assert "neighbour" in {each.function for each in standing(report.findings, "undecided")}


def test_a_known_function_is_dismissed_by_name(tmp_path: Path) -> None:
    """miniaudio's decoder in libmtmd; the same code in another function or file is not."""
    flac = function("ma_dr_flac__clz", "lzcnt %eax, %eax")
    other = function("clip_encode", "lzcnt %eax, %eax")
    good = library(tmp_path / "good" / "libmtmd.so", flac)
    bad = library(tmp_path / "bad" / "libmtmd.so", flac, other)
    elsewhere = library(tmp_path / "elsewhere" / "libllama.so", flac)
    report = audited(wheel_with(tmp_path / "good", good), V2)
    (found,) = standing(report.findings, "dismissed")
    assert (report.verdict, found.feature) == ("fits", "abm")
    assert "gIsLZCNTSupported" in (found.reason or "")
    assert audited(wheel_with(tmp_path / "bad", bad), V2).verdict == "unfit"
    assert audited(wheel_with(tmp_path / "elsewhere", elsewhere), V2).verdict == "unfit"


def rulings(file: File) -> list[Standing]:
    return [each.standing for each in found_in(artifact(file), G5, "ISA001")]


GATED = "ggml backend variant"


def variant(name: str, *features: str, evidence: str | None = GATED) -> File:
    made = native_file(f"pkg/libggml-cpu-{name}.so", exports=(SCORE,))
    return using(made, *features, asks=True, evidence=evidence)


def test_a_ggml_variant_needs_a_lesser_sibling() -> None:
    """A14"""
    lesser, greater = variant("haswell", "avx2"), variant("skylakex", "avx512f", "avx2")
    (found,) = found_in(artifact(lesser, greater), G5, "ISA001")
    assert (found.standing, found.feature) == ("dismissed", "avx512f")
    assert "takes libggml-cpu-haswell.so here" in (found.reason or "")
    alone = found_in(artifact(greater), G5, "ISA001")
    assert [(each.standing, each.feature) for each in alone] == [("refused", "avx512f")]


def test_what_runs_before_the_score_is_not_excused() -> None:
    constructor = variant("skylakex", "avx512f", evidence=None)
    (found,) = found_in(artifact(variant("haswell", "avx2"), constructor), G5, "ISA001")
    assert (found.standing, found.function) == ("refused", "f")


def test_a_library_for_each_instruction_set_is_not_decided() -> None:
    family = (
        using(native_file("pkg/libmkl_avx512.so"), "avx512f"),
        native_file("pkg/libmkl_def.so"),
    )
    assert [each.standing for each in found_in(artifact(*family), G5, "ISA001")] == ["undecided"]
    alone = using(native_file("pkg/libmkl_avx512.so"), "avx512f")
    assert [each.standing for each in found_in(artifact(alone), G5, "ISA001")] == ["refused"]


def test_few_hits_among_data_are_not_decided() -> None:
    plain = native_file()
    assert rulings(using(plain, "avx512f", invalid=7, function=None, count=2)) == ["undecided"]
    assert rulings(using(plain, "avx512f", invalid=0, function=None, count=2)) == ["refused"]
    assert rulings(using(plain, "avx512f", invalid=7, function=None, count=3)) == ["refused"]
    assert rulings(using(plain, "avx512f", invalid=7, function="f", count=1)) == ["refused"]


def test_functions_of_which_the_same_holds_are_one_finding(tmp_path: Path) -> None:
    path = library(tmp_path / "libx.so", *(function(name, AVX512, AVX512) for name in "abc"))
    (found,) = standing(audited(wheel_with(tmp_path, path), G5).findings, "refused")
    assert (found.count, found.function) == (6, "a")
    assert found.message.startswith("6 instructions in 3 functions need avx512f")


def test_ssse3_brings_sse3() -> None:
    ssse3 = replace(HOSTS["x86-64"].cpu, features=("ssse3",))
    host = replace(HOSTS["x86-64"], cpu=ssse3)
    made = artifact(using(native_file(), "sse3"))
    assert found_in(made, Target(host=host), "ISA001") == []
    assert rulings_on(made, "x86-64") == ["refused"]


def rulings_on(made: Artifact, host: str) -> list[Standing]:
    return [each.standing for each in found_in(made, Target(host=HOSTS[host]), "ISA001")]


# other machines


def constructing(folder: Path, *instructions: str) -> Path:
    """A library whose constructor has these instructions, and a cpuid elsewhere."""
    entry = '.section .init_array, "aw"\n.quad early\n.text'.replace('"', '\\"')
    helper = function("helper", "nop")
    asking = function("asks", CPUID)
    return library(folder / "libx.so", entry, helper, function("early", *instructions), asking)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (("nop",), "refused"),
        ((CPUID,), "undecided"),
        (("xgetbv",), "undecided"),
        (("call helper@PLT",), "undecided"),
        (("test %eax, %eax", "je 1f", "1:"), "undecided"),
    ],
)
def test_a_constructor_that_does_not_ask_is_refused(
    tmp_path: Path, before: tuple[str, ...], expected: Standing
) -> None:
    """A cpuid elsewhere comes too late: the loader runs the constructor first."""
    report = audited(constructing(tmp_path, *before, AVX512), G5)
    (found,) = [each for each in report.findings if each.feature == "avx512f"]
    assert (found.standing, found.function) == (expected, "early")


@pytest.mark.parametrize("target", [G5, NOTHING])
def test_another_machine_is_named_as_not_covered(target: Target) -> None:
    arm = replace(native_file(machine="aarch64"), code=None)
    (found,) = found_in(artifact(arm), target, "ISA001")
    assert (found.standing, "aarch64" in found.message) == ("not covered", True)


@pytest.mark.parametrize("target", [G5, NOTHING])
def test_the_other_half_of_a_universal_file_is_noted(target: Target) -> None:
    intel = native_file(format="Mach-O")
    arm = replace(native_file(format="Mach-O", machine="aarch64"), code=None)
    report = judge(artifact(intel, arm), target, (HOSTS["aws-g5"],))
    (found,) = [each for each in report.findings if each.check == "ISA001"]
    assert (found.standing, "aarch64" in found.message) == ("noted", True)
    assert [fit.verdict for fit in report.fits] == ["fits"]


@pytest.mark.parametrize("target", [G5, NOTHING])
def test_an_archive_inside_is_not_covered(target: Target) -> None:
    made = artifact(native_file())
    hiding = replace(made, contents=replace(made.contents, nested=("pkg/blob.bin",)))
    (found,) = found_in(hiding, target, "ISA001")
    assert (found.standing, found.file) == ("not covered", "pkg/blob.bin")
    assert judge(hiding, target, (HOSTS["aws-g5"],)).fits[0].verdict == "undecided"
    assert found_in(made, target, "ISA001") == []


# against a plan


def planned(folder: Path, files: Mapping[str, bytes], *changed: Path) -> list[Finding]:
    more = {f"{LIB}/{path.name}": path.read_bytes() for path in changed}
    report = audited(planned_wheel(folder, PLAN, {**files, **more}), AVX2_PLAN)
    return standing(report.findings, "refused")


def test_a_wheel_as_planned_fits(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    assert planned(tmp_path, files) == []


@pytest.mark.parametrize("asks", [(), (function("asks", CPUID),)])
def test_our_own_files_are_never_left_undecided(
    tmp_path: Path, files: Mapping[str, bytes], asks: tuple[str, ...]
) -> None:
    bad = library(tmp_path / "libllama.so", function("f", AVX512), *asks)
    (found,) = planned(tmp_path, files, bad)
    assert (found.check, found.function, found.feature) == ("ISA001", "f", "avx512f")
    assert "not planned for this file" in found.message


def test_avx2_outside_the_cpu_backend_is_refused(
    tmp_path: Path, files: Mapping[str, bytes]
) -> None:
    """A15: the host has it, the plan has it in libggml-cpu only."""
    (found,) = planned(tmp_path, files, library(tmp_path / "libllama.so", function("f", AVX2)))
    assert (found.file, found.feature) == (f"{LIB}/libllama.so", "avx2")


def test_an_sse2_backend_under_an_avx2_label_is_refused(
    tmp_path: Path, files: Mapping[str, bytes]
) -> None:
    """A21: what SOURCE_DATE_EPOCH makes of ggml's defaults."""
    found = planned(tmp_path, files, backend(tmp_path, SSE))
    assert {each.check for each in found} == {"ISA002"}
    assert len(found) == len(PLAN.backends[0].options) == 6


@pytest.mark.parametrize("option", sorted({*PLAN.backends[0].options} - {"GGML_SSE42"}))
def test_each_option_has_to_leave_an_instruction(
    tmp_path: Path, files: Mapping[str, bytes], option: str
) -> None:
    """A14, A21"""
    others = [text for name, text in PROOFS.items() if name != option]
    (found,) = planned(tmp_path, files, backend(tmp_path, *others))
    assert found.message.endswith(f" instruction, but {option} is ON")


def test_a_backend_that_is_missing_is_told(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    wheel = {name: content for name, content in files.items() if "libggml-cpu" not in name}
    found = planned(tmp_path, wheel)
    assert any(each.check == "ISA002" and "is not in here" in each.message for each in found)


# Windows


def dll(folder: Path, instruction: str) -> Path:
    hint = "apt-get install gcc-mingw-w64-x86-64"
    compiler = need("x86_64-w64-mingw32-gcc", hint)
    source, path = folder / "x.c", folder / "x.dll"
    code = f'__declspec(dllexport) void f(void) {{ __asm__ volatile("{instruction}"); }}\n'
    source.write_text(code)
    argv = (compiler, "-O1", "-shared", "-nostdlib", "-Wl,--entry=0", str(source), "-o", str(path))
    subprocess.run(argv, check=True)
    return path


@pytest.mark.parametrize(("instruction", "verdict"), [(AVX512, "unfit"), (AVX2, "fits")])
def test_a_dll_is_read_as_well(tmp_path: Path, instruction: str, verdict: str) -> None:
    report = audited(wheel_with(tmp_path, dll(tmp_path, instruction)), G5)
    assert report.verdict == verdict
    assert any(
        "by their instructions alone" in text for text in messages(report.findings, "ELF002")
    )
