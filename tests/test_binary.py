import shutil
import subprocess
from pathlib import Path

import pytest

from hostwheel.artifact.binary import has_ifunc, highest, open_elf, read_binary
from hostwheel.artifact.magic import is_elf
from hostwheel.errors import BadInput

SOURCE = """
#include <math.h>
#include <stdlib.h>
extern int nowhere(int);
double outside(double x) { return exp(x) + (double)(size_t)malloc(1) + nowhere(1); }
"""

IFUNC = """
static int one(void) { return 1; }
static void *choose(void) { return one; }
int chosen(void) __attribute__((ifunc("choose")));
"""


def library(folder: Path, source: str, *flags: str, name: str = "libx.so") -> Path:
    code, result = folder / "x.c", folder / name
    code.write_text(source)
    subprocess.run(["gcc", "-O1", "-fPIC", "-shared", code, "-o", result, *flags], check=True)
    return result


def test_facts_of_a_library(tmp_path: Path) -> None:
    flags = ("-lm", "-Wl,-soname,libx.so.7", "-Wl,-rpath,$ORIGIN:$ORIGIN/../nvidia")
    facts = read_binary(library(tmp_path, SOURCE, *flags, "-Wl,--build-id=0xC0FFEE01"))
    assert facts.needed == ("libm.so.6", "libc.so.6")
    assert facts.soname == "libx.so.7"
    assert facts.runpath == ("$ORIGIN", "$ORIGIN/../nvidia")
    assert facts.build_id == "c0ffee01"
    assert facts.versions == {"GLIBC": "2.29"}
    assert {"exp", "malloc", "nowhere"} <= set(facts.imports)
    assert "outside" not in facts.imports


def test_old_rpath_counts_as_runpath(tmp_path: Path) -> None:
    flags = ("-Wl,--disable-new-dtags", "-Wl,-rpath,/build/lib")
    assert read_binary(library(tmp_path, SOURCE, *flags)).runpath == ("/build/lib",)


def test_stripped_library_without_names(tmp_path: Path) -> None:
    facts = read_binary(library(tmp_path, "int x;", "-s", "-nostdlib", "-Wl,--build-id=none"))
    assert (facts.soname, facts.build_id) == (None, None)
    assert (facts.needed, facts.runpath, facts.versions) == ((), (), {})


def test_ifunc_is_seen_in_symbols_and_in_relocations(tmp_path: Path) -> None:
    assert has_ifunc(open_elf(library(tmp_path, IFUNC)))
    hidden = IFUNC.replace("int chosen", "static int chosen") + "int call(void){return chosen();}"
    assert has_ifunc(open_elf(library(tmp_path, hidden, "-s")))
    assert not has_ifunc(open_elf(library(tmp_path, SOURCE)))


def test_versions_compare_as_numbers() -> None:
    names = ("GLIBC_2.9", "GLIBC_2.34", "GLIBC_2.4", "GLIBCXX_3.4.9", "GLIBCXX_3.4.30")
    assert highest(names) == {"GLIBC": "2.34", "GLIBCXX": "3.4.30"}
    assert highest(("GLIBC_2.4", "GLIBC_ABI_DT_RELR")) == {"GLIBC": "2.36"}
    assert highest(("GLIBC_PRIVATE", "libcublas.so.13")) == {}


@pytest.mark.parametrize("keep", [0, 3, 4, 16, 63, 64, 1000, -100, -1])
def test_truncated_file_is_refused(tmp_path: Path, keep: int) -> None:
    whole = library(tmp_path, SOURCE).read_bytes()
    short = tmp_path / "short.so"
    short.write_bytes(whole[:keep])
    with pytest.raises(BadInput, match=r"short\.so: "):
        read_binary(short)


def test_file_cut_within_its_segments_is_refused_without_section_table(tmp_path: Path) -> None:
    whole = bytearray(library(tmp_path, SOURCE).read_bytes())
    whole[40:48] = bytes(8)  # e_shoff
    whole[58:64] = bytes(6)  # e_shentsize, e_shnum, e_shstrndx
    short = tmp_path / "short.so"
    short.write_bytes(whole[:8192])
    with pytest.raises(BadInput, match="contents end at byte"):
        read_binary(short)


def test_section_past_the_end_is_refused(tmp_path: Path) -> None:
    path = library(tmp_path, SOURCE)
    content = bytearray(path.read_bytes())
    last = len(content) - 64  # the last section header
    content[last + 32 : last + 40] = len(content).to_bytes(8, "little")  # sh_size
    path.write_bytes(content)
    with pytest.raises(BadInput, match="contents end at byte"):
        read_binary(path)


def test_damage_is_silent(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    damaged = tmp_path / "damaged.so"
    damaged.write_bytes(b"\x7fELF" + bytes(4000))
    with pytest.raises(BadInput, match="neither sections nor segments"):
        read_binary(damaged)
    assert capfd.readouterr() == ("", "")


def test_what_is_no_elf(tmp_path: Path) -> None:
    script = tmp_path / "script.so"
    script.write_text("#!/bin/sh\n")
    assert not is_elf(script)
    assert not is_elf(tmp_path)
    assert not is_elf(tmp_path / "absent")
    assert is_elf(Path(shutil.which("gcc") or ""))
    for path, reason in ((script, "not an ELF"), (tmp_path / "absent", "no such file")):
        with pytest.raises(BadInput, match=reason):
            read_binary(path)
