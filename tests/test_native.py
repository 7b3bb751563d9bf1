import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from hostwheel.artifact import native
from hostwheel.artifact.facts import Code
from hostwheel.artifact.native import read_file, read_files
from hostwheel.errors import BadInput
from tests.natives import assembled, compiled, member, the_file
from tests.test_fatbin import container, entry

AVX512 = "vpaddd %zmm1, %zmm2, %zmm3"
# `f` has a frame, and so an entry in the unwind tables, and no exported name.
UNWOUND = """
static void __attribute__((noinline)) f(void) {
    char x[99];
    __asm__ volatile("vpaddd %%zmm1, %%zmm2, %%zmm3" :: "r"(x));
}
__declspec(dllexport) void g(void) { f(); }
"""
LIBRARY = """
int puts(const char *);
const char *where = "/home/ann/src/x.c";
int f(void) { return puts(where); }
"""
ASKING = """
int __stdcall IsProcessorFeaturePresent(int);
int f(void) { return IsProcessorFeaturePresent(40); }
"""
X86_64, ARM64 = 0x01000007, 0x0100000C


def code_of(path: Path) -> Code:
    found = the_file(path).code
    assert found is not None
    return found


def macho(code: bytes, cpu: int = X86_64) -> bytes:
    """A library with one function, `_f`, and nothing that loads it: header, code, symbols."""
    names = b"\0_f\0\0\0\0\0"
    commands = 72 + 80 + 24
    start = 32 + commands
    section = struct.pack(
        "<16s16sQQIIIIIIII",
        *(b"__text", b"__TEXT", 0x1000, len(code), start, 0, 0, 0, 0x80000400, 0, 0, 0),
    )
    segment = struct.pack(
        "<II16sQQQQIIII",
        *(0x19, 72 + 80, b"__TEXT", 0x1000, len(code), start, len(code), 5, 5, 1, 0),
    )
    symbols = start + len(code)
    symtab = struct.pack("<IIIIII", 2, 24, symbols, 1, symbols + 16, len(names))
    header = struct.pack("<IIIIIIII", 0xFEEDFACF, cpu, 3, 6, 2, commands, 0, 0)
    symbol = struct.pack("<IBBHQ", 1, 0x0F, 1, 0, 0x1000)
    return header + segment + section + symtab + code + symbol + names


def universal(**parts: tuple[int, bytes]) -> bytes:
    """Several architectures in one file, each at a page of its own."""
    head = struct.pack(">II", 0xCAFEBABE, len(parts))
    body = b""
    for number, (cpu, content) in enumerate(parts.values(), 1):
        head += struct.pack(">IIIII", cpu, 3, number * 4096, len(content), 12)
        body += content.ljust(4096, b"\0")
    return head.ljust(4096, b"\0") + body


def test_headers_of_a_library(tmp_path: Path) -> None:
    flags = ("-Wl,-soname,libx.so.7", "-Wl,-rpath,$ORIGIN/lib", "-lc", "-Wl,--build-id=0xC0FFEE01")
    found = the_file(compiled(tmp_path, LIBRARY, *flags)).native
    assert (found.format, found.machine) == ("ELF", "x86-64")
    assert (found.needed, found.soname) == (("libc.so.6",), "libx.so.7")
    assert (found.runpath, found.build_id) == (("$ORIGIN/lib",), "c0ffee01")
    assert (found.imports, found.exports) == (("puts",), ("f",))
    assert (found.versions, found.level) == ({"GLIBC": "2.2.5"}, None)
    assert found.paths == ("/home/ann/src",)
    assert found.rpath == ()


def test_the_older_search_path_is_another(tmp_path: Path) -> None:
    flags = ("-Wl,--disable-new-dtags", "-Wl,-rpath,$ORIGIN/lib")
    found = the_file(compiled(tmp_path, "void f(void) {}", *flags)).native
    assert (found.runpath, found.rpath) == ((), ("$ORIGIN/lib",))


def test_the_level_that_a_property_note_demands(tmp_path: Path) -> None:
    path = compiled(tmp_path, "void f(void) {}", "-Wl,-z,x86-64-v3")
    assert the_file(path).native.level == "x86-64-v3"


def test_gpu_code_and_instructions_of_one_file(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(container(entry()))
    section = f'__asm__(".section .nv_fatbin,\\"a\\"\\n.incbin \\"{tmp_path}/blob\\"\\n.text");'
    found = the_file(compiled(tmp_path, f"{section} void f(void) {{}}"))
    assert [image.sm for image in found.images] == ["86"]
    assert found.code is not None
    assert found.code.used == {}


def test_a_dll_with_avx512_and_its_twin_without(tmp_path: Path) -> None:
    path = assembled(tmp_path, name="x.dll", planted=AVX512, innocent="addps %xmm0, %xmm1")
    found = the_file(path)
    assert (found.native.format, found.native.machine) == ("PE", "x86-64")
    assert found.native.exports == ("innocent", "planted")
    (spot,) = code_of(path).used["avx512f"].spots
    assert (spot.function, spot.text) == ("planted", "vpaddd zmm3,zmm2,zmm1")
    assert not code_of(path).asks
    clean = assembled(tmp_path, name="clean.dll", innocent="addps %xmm0, %xmm1")
    assert code_of(clean).used == {}


def test_functions_of_a_stripped_dll_come_from_its_unwind_tables(tmp_path: Path) -> None:
    path = compiled(tmp_path, UNWOUND, name="x.dll")
    (spot,) = code_of(path).used["avx512f"].spots
    assert spot.function == "f"
    subprocess.run(["x86_64-w64-mingw32-strip", path], check=True)
    (bare,) = code_of(path).used["avx512f"].spots
    assert bare.function is not None
    assert bare.function.startswith("0x")
    assert bare.address == spot.address


def test_imports_of_a_dll(tmp_path: Path) -> None:
    path = compiled(tmp_path, ASKING, "-lkernel32", name="x.dll")
    found = the_file(path).native
    assert (found.needed, found.imports) == (("KERNEL32.dll",), ("IsProcessorFeaturePresent",))
    assert code_of(path).asks


@pytest.mark.parametrize(
    ("code", "features"),
    [("62f16d48fed9c3", {"avx512f"}), ("0f58c8c3", set())],  # vpaddd %zmm…; addps
)
def test_a_macho_library(tmp_path: Path, code: str, features: set[str]) -> None:
    path = tmp_path / "libx.dylib"
    path.write_bytes(macho(bytes.fromhex(code)))
    found = the_file(path)
    assert (found.native.format, found.native.machine) == ("Mach-O", "x86-64")
    used = code_of(path).used
    assert set(used) == features
    assert {spot.function for use in used.values() for spot in use.spots} == {"f"} or not features


def test_a_universal_file_is_one_for_each_architecture(tmp_path: Path) -> None:
    path = tmp_path / "libx.dylib"
    avx512, arm = macho(bytes.fromhex("62f16d48fed9c3")), macho(bytes(8), ARM64)
    path.write_bytes(universal(intel=(X86_64, avx512), arm=(ARM64, arm)))
    intel, other = read_file(member(path), None)
    assert (intel.native.machine, other.native.machine) == ("x86-64", "aarch64")
    assert intel.code is not None
    assert set(intel.code.used) == {"avx512f"}
    assert other.code is None


def test_another_machine_is_named_and_not_decoded(tmp_path: Path) -> None:
    path = assembled(tmp_path, f=AVX512)
    content = bytearray(path.read_bytes())
    content[18:20] = (183).to_bytes(2, "little")  # e_machine
    path.write_bytes(content)
    found = the_file(path)
    assert (found.native.machine, found.code) == ("aarch64", None)


@pytest.mark.parametrize(
    "content", [b"", b"#!/bin/sh\n", b"\xca\xfe\xba\xbe\0\0\0\x34", b"MZ", b"PK\3\4", b"\x7fEL"]
)
def test_what_is_no_native_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    assert read_file(member(path), None) == ()
    assert read_file(member(tmp_path), None) == ()


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.999])
def test_truncated_files_are_refused(tmp_path: Path, share: float) -> None:
    files = {
        "x.so": assembled(tmp_path, f=AVX512).read_bytes(),
        "x.dll": assembled(tmp_path, name="x.dll", f=AVX512).read_bytes(),
        "x.dylib": macho(bytes(4000)),
        "y.dylib": universal(a=(X86_64, macho(bytes(4000))), b=(ARM64, macho(bytes(4000), ARM64))),
    }
    for name, whole in files.items():
        path = tmp_path / f"short-{name}"
        content = whole.rstrip(b"\0") if name.startswith("y") else whole
        path.write_bytes(content[: int(len(content) * share)])
        with pytest.raises(BadInput, match=name):
            read_file(member(path), None)


def several(folder: Path) -> Mapping[str, Path]:
    (folder / "note.txt").write_text("no native file")
    return {
        "note": folder / "note.txt",
        "works": assembled(folder, name="libworks.so", works=AVX512),
        "plain": assembled(folder, name="libplain.so", plain="nop"),
        "windows": assembled(folder, name="x.dll", works=AVX512),
    }


def test_files_are_read_alike_alone_and_on_all_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = [member(path) for path in several(tmp_path).values()]
    told: list[tuple[int, int]] = []
    alone = read_files(members, None, lambda done, total: told.append((done, total)))
    monkeypatch.setattr(native, "FEW", 0)
    monkeypatch.setattr(native, "WHOLE", 15_000)  # some in one go, some chunk by chunk
    together = read_files(members, None, lambda done, total: told.append((done, total)))
    assert together == alone
    assert [found.member for found in alone] == members[1:]
    assert told.count((told[-1][1], told[-1][1])) == 2  # each ends with all bytes


def test_a_damaged_file_ends_the_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = several(tmp_path)["works"]
    path.write_bytes(path.read_bytes()[:-300])
    monkeypatch.setattr(native, "FEW", 0)
    with pytest.raises(BadInput, match=r"libworks\.so: truncated"):
        read_files([member(path)], None)


def test_a_large_file_is_the_same_in_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    functions = {f"f{number}": f"{AVX512}; .skip 100, 0x90" for number in range(200)}
    path = assembled(tmp_path, "-g0", **functions)
    whole = code_of(path)
    assert whole.used["avx512f"].count == 200
    monkeypatch.setattr("hostwheel.artifact.chunks.SIZE", 1000)
    assert code_of(path) == whole


def test_code_larger_than_the_file_is_refused(tmp_path: Path) -> None:
    """Sections that lie about the same bytes would be decoded over and over."""
    path = assembled(tmp_path, f=f".skip 9000, 0x90; {AVX512}")
    content = bytearray(path.read_bytes())
    at = int.from_bytes(content[40:48], "little")
    number = int.from_bytes(content[60:62], "little")
    headers = [bytearray(content[at + 64 * each : at + 64 * each + 64]) for each in range(number)]
    text = next(each for each in headers if each[8] & 4 and each[32:40] > b"\0\x20")
    for each in range(1, number - 1):
        content[at + 64 * each + 4 : at + 64 * each + 64] = text[4:]
    path.write_bytes(content)
    with pytest.raises(BadInput, match="larger than the file"):
        read_file(member(path), None)


STARTS = """
import threading
from hostwheel.artifact.native import start_method

print(start_method())
done = threading.Event()
other = threading.Thread(target=done.wait)
other.start()
print(start_method())
done.set()
"""


def test_readers_are_forked_only_while_there_is_no_other_thread() -> None:
    """In a process of its own: other tests may have left threads here."""
    argv = (sys.executable, "-c", STARTS)
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["fork", "spawn"]
