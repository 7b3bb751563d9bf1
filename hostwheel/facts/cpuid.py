"""Ask the CPU, not the kernel, what it can do. Standard library only, Python 3.8 and newer.

This file is also copied into every wheel that hostwheel builds, where it guards the import, and
its table becomes the guard of the executables. `/proc/cpuinfo` is only the second choice: an
emulator shows the real machine there.

Leaves and bits: Intel SDM volume 2A, CPUID; AMD APM volume 3, appendix E.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
from pathlib import Path

EAX, EBX, ECX, EDX = range(4)

# State that the kernel has to save for the registers, as bits of XCR0.
NO_STATE, AVX_STATE, AVX512_STATE, AMX_STATE = 0, 0x6, 0xE6, 0x60006

# archspec name: (leaf, subleaf, register, bit, XCR0 bits)
FEATURES = {
    "sse3": (1, 0, ECX, 0, NO_STATE),
    "pclmulqdq": (1, 0, ECX, 1, NO_STATE),
    "ssse3": (1, 0, ECX, 9, NO_STATE),
    "fma": (1, 0, ECX, 12, AVX_STATE),
    "cx16": (1, 0, ECX, 13, NO_STATE),
    "sse4_1": (1, 0, ECX, 19, NO_STATE),
    "sse4_2": (1, 0, ECX, 20, NO_STATE),
    "movbe": (1, 0, ECX, 22, NO_STATE),
    "popcnt": (1, 0, ECX, 23, NO_STATE),
    "aes": (1, 0, ECX, 25, NO_STATE),
    "avx": (1, 0, ECX, 28, AVX_STATE),
    "f16c": (1, 0, ECX, 29, AVX_STATE),
    "rdrand": (1, 0, ECX, 30, NO_STATE),
    "fsgsbase": (7, 0, EBX, 0, NO_STATE),
    "bmi1": (7, 0, EBX, 3, NO_STATE),
    "avx2": (7, 0, EBX, 5, AVX_STATE),
    "bmi2": (7, 0, EBX, 8, NO_STATE),
    "avx512f": (7, 0, EBX, 16, AVX512_STATE),
    "avx512dq": (7, 0, EBX, 17, AVX512_STATE),
    "rdseed": (7, 0, EBX, 18, NO_STATE),
    "adx": (7, 0, EBX, 19, NO_STATE),
    "avx512ifma": (7, 0, EBX, 21, AVX512_STATE),
    "clflushopt": (7, 0, EBX, 23, NO_STATE),
    "clwb": (7, 0, EBX, 24, NO_STATE),
    "avx512cd": (7, 0, EBX, 28, AVX512_STATE),
    "sha_ni": (7, 0, EBX, 29, NO_STATE),
    "avx512bw": (7, 0, EBX, 30, AVX512_STATE),
    "avx512vl": (7, 0, EBX, 31, AVX512_STATE),
    "avx512vbmi": (7, 0, ECX, 1, AVX512_STATE),
    "avx512_vbmi2": (7, 0, ECX, 6, AVX512_STATE),
    "gfni": (7, 0, ECX, 8, NO_STATE),
    "vaes": (7, 0, ECX, 9, AVX_STATE),
    "vpclmulqdq": (7, 0, ECX, 10, AVX_STATE),
    "avx512_vnni": (7, 0, ECX, 11, AVX512_STATE),
    "avx512_bitalg": (7, 0, ECX, 12, AVX512_STATE),
    "avx512_vpopcntdq": (7, 0, ECX, 14, AVX512_STATE),
    "amx_bf16": (7, 0, EDX, 22, AMX_STATE),
    "avx512_fp16": (7, 0, EDX, 23, AVX512_STATE),
    "amx_tile": (7, 0, EDX, 24, AMX_STATE),
    "amx_int8": (7, 0, EDX, 25, AMX_STATE),
    "avx_vnni": (7, 1, EAX, 4, AVX_STATE),
    "avx512_bf16": (7, 1, EAX, 5, AVX512_STATE),
    "mmx": (1, 0, EDX, 23, NO_STATE),
    "sse": (1, 0, EDX, 25, NO_STATE),
    "sse2": (1, 0, EDX, 26, NO_STATE),
    "pku": (7, 0, ECX, 3, NO_STATE),
    "waitpkg": (7, 0, ECX, 5, NO_STATE),
    "rdpid": (7, 0, ECX, 22, NO_STATE),
    "cldemote": (7, 0, ECX, 25, NO_STATE),
    "movdiri": (7, 0, ECX, 27, NO_STATE),
    "movdir64b": (7, 0, ECX, 28, NO_STATE),
    "serialize": (7, 0, EDX, 14, NO_STATE),
    "flush_l1d": (7, 0, EDX, 28, NO_STATE),
    "avx_ifma": (7, 1, EAX, 23, AVX_STATE),
    "avx_vnni_int8": (7, 1, EDX, 4, AVX_STATE),
    "avx_ne_convert": (7, 1, EDX, 5, AVX_STATE),
    "xsave": (1, 0, ECX, 26, NO_STATE),
    "xsaveopt": (0xD, 1, EAX, 0, NO_STATE),
    "xsavec": (0xD, 1, EAX, 1, NO_STATE),
    "clzero": (0x80000008, 0, EBX, 0, NO_STATE),
    "lahf_lm": (0x80000001, 0, ECX, 0, NO_STATE),
    "abm": (0x80000001, 0, ECX, 5, NO_STATE),
    "sse4a": (0x80000001, 0, ECX, 6, NO_STATE),
}

KERNEL_NAMES = {"pni": "sse3"}  # where /proc/cpuinfo and archspec differ

# cpuid(leaf, subleaf, uint32 out[4]) and xgetbv() -> low half of XCR0, for the System V ABI
CPUID_CODE = bytes.fromhex(
    "53 89f8 89f1 4989d0 0fa2 418900 41895804 41894808 4189500c 5b c3".replace(" ", "")
)
XGETBV_CODE = bytes.fromhex("31c9 0f01d0 c3".replace(" ", ""))
XGETBV_OFFSET = 64
PROT_READ_EXEC = 5


class Cpu:
    """The CPU that this process runs on: `brand` and `features` (archspec names, sorted)."""

    def __init__(self) -> None:
        if platform.machine() not in ("x86_64", "AMD64"):
            raise OSError("not an x86-64 CPU: " + platform.machine())
        try:
            code = _executable(CPUID_CODE.ljust(XGETBV_OFFSET, b"\xcc") + XGETBV_CODE)
        except OSError:  # a kernel that forbids new executable memory
            self.brand, self.features = _from_kernel()
            return
        self.brand = _brand(code)
        self.features = _features(code)


def missing(needed: tuple[str, ...]) -> tuple[str, ...]:
    """Which of `needed` (archspec names) the CPU or the operating system does not offer."""
    have = Cpu().features
    return tuple(name for name in needed if name not in have)


def _executable(code: bytes) -> mmap.mmap:
    """A page that holds `code`: written first, then made executable, never both at once."""
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    page.write(code)
    libc = ctypes.CDLL(None, use_errno=True)
    address = ctypes.c_void_p(_address(page))
    if libc.mprotect(address, ctypes.c_size_t(mmap.PAGESIZE), PROT_READ_EXEC) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
    return page


def _address(page: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(page))


def _cpuid(page: mmap.mmap, leaf: int, subleaf: int) -> tuple[int, ...]:
    out = (ctypes.c_uint32 * 4)()
    kind = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)
    kind(_address(page))(leaf, subleaf, ctypes.addressof(out))
    return tuple(out)


def _xcr0(page: mmap.mmap) -> int:
    has_osxsave = _cpuid(page, 1, 0)[ECX] >> 27 & 1
    if not has_osxsave:
        return 0
    return int(ctypes.CFUNCTYPE(ctypes.c_uint32)(_address(page) + XGETBV_OFFSET)())


def _features(page: mmap.mmap) -> tuple[str, ...]:
    highest = {0: _cpuid(page, 0, 0)[EAX], 0x80000000: _cpuid(page, 0x80000000, 0)[EAX]}
    xcr0 = _xcr0(page)
    found = []
    for name, (leaf, subleaf, register, bit, state) in FEATURES.items():
        if leaf > highest[leaf & 0x80000000] or xcr0 & state != state:
            continue
        if leaf == 7 and subleaf > _cpuid(page, leaf, 0)[EAX]:  # only leaf 7 counts its subleaves
            continue
        if _cpuid(page, leaf, subleaf)[register] >> bit & 1:
            found.append(name)
    return tuple(sorted(found))


def _brand(page: mmap.mmap) -> str:
    if _cpuid(page, 0x80000000, 0)[EAX] < 0x80000004:
        return "unknown CPU"
    words = [word for leaf in (2, 3, 4) for word in _cpuid(page, 0x80000000 + leaf, 0)]
    return struct.pack("<12I", *words).split(b"\0")[0].decode("ascii", "replace").strip()


def _from_kernel() -> tuple[str, tuple[str, ...]]:
    fields: dict[str, str] = {}
    with Path("/proc/cpuinfo").open() as lines:
        for line in lines:
            key, _, value = line.partition(":")
            fields.setdefault(key.strip(), value.strip())
    flags = {KERNEL_NAMES.get(flag, flag) for flag in fields.get("flags", "").split()}
    return fields.get("model name", "unknown CPU"), tuple(sorted(flags & set(FEATURES)))
