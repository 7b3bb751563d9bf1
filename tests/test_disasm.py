import json
import random
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from hostwheel.artifact.codes import NAMES, feature_table
from hostwheel.artifact.native import read_code
from hostwheel.artifact.symbols import read_symbol_map, write_symbol_map
from hostwheel.errors import BadInput
from hostwheel.facts.isa import beyond
from tests.natives import assembled, compiled, without_sections

ARCHSPEC = json.loads(files("archspec").joinpath("json/cpu/microarchitectures.json").read_text())
TARGETS = ARCHSPEC["microarchitectures"]


def library(folder: Path, **functions: str) -> Path:
    return assembled(folder, "-fcf-protection", **functions)


def used(folder: Path, assembly: str) -> set[str]:
    return set(read_code(library(folder, f=assembly), None).used)


def test_planted_avx512_is_named(tmp_path: Path) -> None:
    path = library(
        tmp_path,
        innocent="addps %xmm0, %xmm1",
        planted="nop; vpaddd %zmm1, %zmm2, %zmm3; vpaddd %zmm1, %zmm2, %zmm4",
        twin="vpaddd %zmm1, %zmm2, %zmm3",
    )
    starts = {name: start for start, _, name in read_symbol_map(path).functions}
    found = read_code(path, None)
    use = found.used["avx512f"]
    planted, twin = use.spots
    assert (use.count, planted.count, twin.count) == (3, 2, 1)
    assert (planted.function, twin.function) == ("planted", "twin")
    assert planted.text == "vpaddd zmm3,zmm2,zmm1"
    assert planted.address == starts["planted"] + 4 + 1  # after endbr64 and the nop
    assert planted.evidence is None
    assert not found.asks


def test_stripped_file_has_addresses_and_takes_saved_names(tmp_path: Path) -> None:
    hidden = ("-fvisibility=hidden", "-Wl,--build-id=sha1")
    path = assembled(tmp_path, *hidden, planted="vpaddd %zmm1, %zmm2, %zmm3")
    named = read_code(path, None)
    write_symbol_map(read_symbol_map(path), tmp_path / "symbols")
    subprocess.run(["strip", path], check=True)
    assert read_code(path, tmp_path / "symbols") == named
    (spot,) = read_code(path, None).used["avx512f"].spots
    (before,) = named.used["avx512f"].spots
    assert (spot.function, before.function) == (hex(spot.address), "planted")
    assert spot.address == before.address


@pytest.mark.parametrize(
    ("assembly", "features"),
    [
        ("vaddps %ymm0, %ymm1, %ymm2", {"avx"}),
        ("vpaddd %ymm0, %ymm1, %ymm2", {"avx2"}),
        ("vfmadd231ps %ymm0, %ymm1, %ymm2", {"fma"}),
        ("vcvtph2ps %xmm0, %ymm1", {"f16c"}),
        ("andn %eax, %ebx, %ecx", {"bmi1"}),
        ("pdep %eax, %ebx, %ecx", {"bmi2"}),
        ("lzcnt %eax, %ebx", {"abm"}),
        ("popcnt %eax, %ebx", {"popcnt"}),
        ("movbe (%rax), %ebx", {"movbe"}),
        ("pcmpestri $0, %xmm0, %xmm1", {"sse4_2"}),
        ("pshufb %xmm0, %xmm1", {"ssse3"}),
        ("haddps %xmm0, %xmm1", {"sse3"}),
        ("cmpxchg16b (%rax)", {"cx16"}),
        ("xsave (%rax)", {"xsave"}),
        ("sha1rnds4 $0, %xmm0, %xmm1", {"sha_ni"}),
        ("vpaddd %ymm0, %ymm1, %ymm2{%k1}", {"avx512f", "avx512vl"}),
        ("vpaddb %zmm0, %zmm1, %zmm2", {"avx512bw"}),
        ("vpermb %zmm0, %zmm1, %zmm2", {"avx512vbmi"}),
        ("vpmadd52luq %zmm0, %zmm1, %zmm2", {"avx512ifma"}),
        ("vpdpbusd %zmm0, %zmm1, %zmm2", {"avx512_vnni"}),
        ("vdpbf16ps %zmm0, %zmm1, %zmm2", {"avx512_bf16"}),
        ("{vex} vpdpbusd %ymm0, %ymm1, %ymm2", {"avx_vnni"}),
        ("tdpbssd %tmm0, %tmm1, %tmm2", {"amx_int8"}),
        ("tdpbf16ps %tmm0, %tmm1, %tmm2", {"amx_bf16"}),
        ("tilezero %tmm0", {"amx_tile"}),
    ],
)
def test_counted(tmp_path: Path, assembly: str, features: set[str]) -> None:
    assert features <= used(tmp_path, assembly) <= features | {"avx512f"}


@pytest.mark.parametrize(
    "assembly",
    [
        "endbr64",
        "nopw 0x1000(%rax,%rax,1)",
        "pause",
        "tzcnt %eax, %ebx",
        "xacquire lock addl $1, (%rax)",
        "prefetchw (%rax)",
        "rdsspq %rax",
        "xor %ecx, %ecx; xgetbv",
        "cpuid",
        "rdtsc",
        "syscall",
        "cmovz %eax, %ebx; fxsave (%rax); clflush (%rax); movdqa %xmm0, %xmm1; sfence",
    ],
)
def test_not_counted(tmp_path: Path, assembly: str) -> None:
    assert used(tmp_path, assembly) == set()


def test_a_question_is_told(tmp_path: Path) -> None:
    assert read_code(library(tmp_path, asks="cpuid"), None).asks
    assert read_code(library(tmp_path, asks="xgetbv"), None).asks
    assert not read_code(library(tmp_path, works="vpaddd %ymm0, %ymm1, %ymm2"), None).asks


def test_data_in_a_function_is_told(tmp_path: Path) -> None:
    found = read_code(library(tmp_path, f=".byte 0x06, 0x06, 0x06; lzcnt %eax, %ebx"), None)
    assert found.invalid == 3
    assert found.used["abm"].count == 1
    assert found.instructions > found.invalid


# Never described by a symbol or an unwind table.
NOBODYS = """
__asm__(".text; .p2align 4; %s; .p2align 4");
int f(void) { return 1; }
"""
AVX512 = "vpaddd %zmm1, %zmm2, %zmm3"


@pytest.mark.parametrize(
    ("between", "counts"),
    [
        (f"{AVX512}; ret", True),
        (f"{AVX512}; jmp *%rax", True),
        (f".byte 6, 6, 6, 6; nop; {AVX512}; ret", True),  # behind a table
        (f"{AVX512}; nop; .byte 6, 6", False),  # goes on into what is no instruction
        (f"{AVX512}; hlt; ret", False),  # the kernel's
        (f"{AVX512}; in %dx, %al; ret", False),
        (f"ret; {AVX512}; pfadd %mm0, %mm1; ret", False),  # 3DNow!, of before AVX
    ],
)
def test_what_lies_between_functions_counts_if_it_is_like_code(
    tmp_path: Path, between: str, counts: bool
) -> None:
    path = compiled(tmp_path, NOBODYS % between)
    found = read_code(path, None).used
    assert set(found) == ({"avx512f"} if counts else set())
    assert [spot.function for use in found.values() for spot in use.spots] == [None] * counts


def test_jump_tables_and_constants_in_a_section_of_code(tmp_path: Path) -> None:
    """Bytes without sense between functions give nothing; those functions are all found."""
    noise = random.Random(7).randbytes(4096)
    (tmp_path / "noise").write_bytes(noise)
    gap = f'.incbin \\"{tmp_path}/noise\\"'
    source = "".join(
        f'__asm__(".text\\n{gap}\\n.p2align 4");'
        f'int f{number}(int x) {{ __asm__ volatile("lzcnt %eax, %ebx"); return x; }}'
        for number in range(8)
    )
    found = read_code(compiled(tmp_path, source, "-fno-toplevel-reorder"), None)
    named = [spot.function for spot in found.used["abm"].spots if spot.function]
    assert named == [f"f{number}" for number in range(8)]
    strays = sum(
        spot.count for use in found.used.values() for spot in use.spots if not spot.function
    )
    assert strays < 8  # of 32 KB that nobody wrote
    assert found.invalid > 8 * len(noise) // 100


def test_segments_are_read_where_sections_are_gone(tmp_path: Path) -> None:
    path = library(tmp_path, f="lzcnt %eax, %ebx")
    with_sections = read_code(path, None).used
    without_sections(path)
    assert read_code(path, None).used == with_sections


def test_other_machines_are_refused(tmp_path: Path) -> None:
    path = library(tmp_path, f="nop")
    content = bytearray(path.read_bytes())
    content[18:20] = (183).to_bytes(2, "little")  # e_machine: aarch64
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"libx\.so: machine aarch64, expected x86-64"):
        read_code(path, None)


def test_truncated_file_is_refused(tmp_path: Path) -> None:
    path = library(tmp_path, f="nop")
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(BadInput, match="truncated"):
        read_code(path, None)


def test_beyond(tmp_path: Path) -> None:
    assembly = "vpaddd %ymm0, %ymm1, %ymm2; lzcnt %eax, %ebx; haddps %xmm0, %xmm1"
    found = read_code(library(tmp_path, f=assembly), None).used
    assert beyond(found, TARGETS["zen2"]["features"]) == ()
    assert beyond(found, TARGETS["ivybridge"]["features"]) == ("abm", "avx2")
    assert beyond(found, ()) == ("abm", "avx2", "sse3")


def test_every_feature_of_archspec_has_our_name() -> None:
    ours = {name for names in feature_table().values() for name in names}
    x86 = ("GenuineIntel", "AuthenticAMD", "generic")
    theirs = {
        feature
        for target in TARGETS.values()
        if target["vendor"] in x86
        for feature in target["features"]
    }
    baseline, harmless = {"mmx", "sse", "sse2"}, {"cldemote"}
    no_instruction = {"lahf_lm", "flush_l1d", "tsc_adjust"}
    assert theirs - ours == baseline | harmless | no_instruction
    assert set(NAMES.values()) - {"mwaitx"} <= theirs
