import json
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from hostwheel.artifact.disasm import NAMES, beyond, feature_table, sweep, used_features
from hostwheel.artifact.symbols import read_symbol_map
from hostwheel.errors import BadInput

ARCHSPEC = json.loads(files("archspec").joinpath("json/cpu/microarchitectures.json").read_text())
TARGETS = ARCHSPEC["microarchitectures"]


def library(folder: Path, **functions: str) -> Path:
    """One function per keyword, with that assembly in it (AT&T syntax)."""
    code, result = folder / "x.c", folder / "libx.so"
    code.write_text(
        "".join(
            f'void {name}(void) {{ __asm__ volatile("{text}"); }}\n'
            for name, text in functions.items()
        )
    )
    subprocess.run(
        ["gcc", "-O1", "-fPIC", "-shared", "-nostdlib", "-fcf-protection", code, "-o", result],
        check=True,
    )
    return result


def used(folder: Path, assembly: str) -> set[str]:
    return set(used_features(library(folder, f=assembly)))


def test_planted_avx512_is_named(tmp_path: Path) -> None:
    path = library(
        tmp_path,
        innocent="addps %xmm0, %xmm1",
        planted="nop; vpaddd %zmm1, %zmm2, %zmm3; vpaddd %zmm1, %zmm2, %zmm4",
        twin="vpaddd %zmm1, %zmm2, %zmm3",
    )
    symbols = read_symbol_map(path)
    start = next(start for start, _, name in symbols.functions if name == "planted")
    hit = used_features(path, symbols)["avx512f"]
    assert (hit.count, hit.function, hit.text) == (3, "planted", "vpaddd zmm3,zmm2,zmm1")
    assert hit.address == start + 4 + 1  # after endbr64 and the nop
    assert hit.functions == {"planted": 2, "twin": 1}


def test_stripped_file_has_addresses_and_takes_saved_names(tmp_path: Path) -> None:
    path = library(tmp_path, planted="vpaddd %zmm1, %zmm2, %zmm3")
    symbols = read_symbol_map(path)
    named = used_features(path, symbols)
    subprocess.run(["strip", path], check=True)
    assert used_features(path, symbols) == named
    bare = used_features(path)["avx512f"]
    assert (bare.function, bare.functions) == (None, {})
    assert bare.address == named["avx512f"].address


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


def test_questions_are_the_places_that_ask_the_cpu(tmp_path: Path) -> None:
    path = library(tmp_path, asks="cpuid; xgetbv", works="vpaddd %ymm0, %ymm1, %ymm2")
    first, second = sweep(path).questions
    assert second == first + 2
    assert sweep(library(tmp_path, works="vpaddd %ymm0, %ymm1, %ymm2")).questions == ()


def test_data_among_code_is_told(tmp_path: Path) -> None:
    found = sweep(library(tmp_path, f=".byte 0x06, 0x06, 0x06; lzcnt %eax, %ebx"))
    assert found.invalid == 3
    assert found.used["abm"].count == 1
    assert found.instructions > found.invalid


def test_segments_are_read_where_sections_are_gone(tmp_path: Path) -> None:
    path = library(tmp_path, f="lzcnt %eax, %ebx")
    with_sections = used_features(path)
    content = bytearray(path.read_bytes())
    content[40:48] = bytes(8)  # e_shoff
    content[58:64] = bytes(6)  # e_shentsize, e_shnum, e_shstrndx
    path.write_bytes(content)
    assert used_features(path) == with_sections


def test_other_machines_are_refused(tmp_path: Path) -> None:
    path = library(tmp_path, f="nop")
    content = bytearray(path.read_bytes())
    content[18:20] = (183).to_bytes(2, "little")  # e_machine: aarch64
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"libx\.so: machine AARCH64, expected x86-64"):
        used_features(path)


def test_truncated_file_is_refused(tmp_path: Path) -> None:
    path = library(tmp_path, f="nop")
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(BadInput, match="truncated"):
        used_features(path)


def test_beyond(tmp_path: Path) -> None:
    assembly = "vpaddd %ymm0, %ymm1, %ymm2; lzcnt %eax, %ebx; haddps %xmm0, %xmm1"
    found = used_features(library(tmp_path, f=assembly))
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
