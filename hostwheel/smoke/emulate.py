"""Run a command on another CPU model with qemu's user emulation, and prove that it is one."""

import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from hostwheel.errors import BadInput, MachineLacks, Refused

EMULATOR = "qemu-x86_64"
SIGILL = 4
UNSUPPORTED = re.compile(r"TCG doesn't support requested feature: \S+\.(\S+) \[bit \d+\]")

# Each ends with exit(edi). The instruction in question comes first.
EXIT = bytes.fromhex("b83c0000000f05")  # mov eax, 60; syscall
AVX2 = bytes.fromhex("c5fdfec031ff") + EXIT  # vpaddd ymm0, ymm0, ymm0; xor edi, edi
AVX512 = bytes.fromhex("62f17d48fec031ff") + EXIT  # vpaddd zmm0, zmm0, zmm0; xor edi, edi
LZCNT = bytes.fromhex("b808000000f30fbdf8") + EXIT  # mov eax, 8; lzcnt edi, eax
LZCNT_OF_8, BSR_OF_8 = 28, 3


def emulated(argv: Sequence[str], cpu: str) -> tuple[str, ...]:
    """`argv` as it runs on CPU model `cpu`, which may mask more: "EPYC-Rome,-fma".

    qemu-user does not follow execve: what the program starts runs on the real CPU. Wrap
    every command line, never a shell or a test runner around it. Nor does qemu read "#!".
    """
    emulator = find_emulator()
    program = shutil.which(argv[0])
    if program is None:
        raise MachineLacks(f"the program {argv[0]!r} is not on this machine")
    return (emulator, "-cpu", quiet(emulator, cpu), str(Path(program).absolute()), *argv[1:])


def find_emulator() -> str:
    """Path of qemu's user emulation; MachineLacks says how to get it."""
    if found := shutil.which(EMULATOR):
        return found
    raise MachineLacks(
        f"the program {EMULATOR!r} is not on this machine: apt-get install qemu-user"
    )


@cache
def quiet(emulator: str, cpu: str) -> str:
    """`cpu` less the features that this qemu does not emulate, each of which costs a warning.

    qemu itself is asked, since the list grows shorter with its versions; it warns before it
    finds that /dev/null is no program. BadInput for a model or feature it does not know.
    """
    asked = subprocess.run((emulator, "-cpu", cpu, "/dev/null"), capture_output=True, text=True)
    if fault := re.search(r"unable to find CPU model.*|Property .* not found", asked.stderr):
        raise BadInput(f"CPU model {cpu!r}: {fault[0]}; see `{EMULATOR} -cpu help`")
    return ",".join((cpu, *(f"-{name}" for name in UNSUPPORTED.findall(asked.stderr))))


def self_test() -> None:
    """Refused unless the emulator runs AVX2, dies on AVX-512 and computes as the model would.

    A gate that cannot fail is no gate. lzcnt on a CPU without it is bsr: another value.
    """
    for title, code, cpu, expected in (
        ("AVX2 on EPYC-Rome", AVX2, "EPYC-Rome", 0),
        ("AVX2 on Nehalem", AVX2, "Nehalem", -SIGILL),
        ("AVX-512 on EPYC-Rome", AVX512, "EPYC-Rome", -SIGILL),
        ("lzcnt on EPYC-Rome", LZCNT, "EPYC-Rome", LZCNT_OF_8),
        ("lzcnt on Nehalem", LZCNT, "Nehalem", BSR_OF_8),
    ):
        if (status := run_probe(code, cpu)) != expected:
            raise Refused(
                f"{find_emulator()} does not emulate {title}: exit status {status},"
                f" expected {expected}. Nothing that it runs proves anything."
            )


def run_probe(code: bytes, cpu: str) -> int:
    """Exit status of `code` as a program of its own on CPU model `cpu`, -4 for SIGILL."""
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder, "probe")
        probe.write_bytes(executable(code))
        probe.chmod(0o755)
        # In that folder, because a dying qemu leaves a core file in the working directory.
        done = subprocess.run(emulated([str(probe)], cpu), capture_output=True, cwd=folder)
    return done.returncode


def executable(code: bytes) -> bytes:
    """The smallest x86-64 ELF file that runs `code`: two headers and one segment."""
    base, headers = 0x400000, 64 + 56
    size = headers + len(code)
    identity = b"\x7fELF" + bytes((2, 1, 1)) + bytes(9)
    elf = identity + struct.pack(
        "<HHIQQQIHHHHHH", 2, 62, 1, base + headers, 64, 0, 0, 64, 56, 1, 0, 0, 0
    )
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 0x1000)
    return elf + segment + code
