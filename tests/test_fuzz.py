"""Damaged native files give a result or BadInput, never another error, and soon."""

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostwheel.artifact.native import read_file
from hostwheel.errors import BadInput
from tests.natives import assembled, compiled, member
from tests.test_fatbin import container, entry
from tests.test_native import ARM64, X86_64, macho, universal

ROUNDS = 60
IFUNC = """
static void a(void) {}
static void *choose(void) { return a; }
void f(void) __attribute__((ifunc("choose")));
"""
PROGRAM = """
import sys
from pathlib import Path
from tests.test_fuzz import try_all
print(*try_all(Path(sys.argv[1]), int(sys.argv[2])))
"""


def originals(folder: Path) -> dict[str, bytes]:
    (folder / "blob").write_bytes(container(entry(), entry(1)))
    section = f'__asm__(".section .nv_fatbin,\\"a\\"\\n.incbin \\"{folder}/blob\\"\\n.text");'
    code = macho(bytes.fromhex("62f16d48fed9c3") * 50)
    return {
        "x.so": compiled(folder, section + IFUNC).read_bytes(),
        "x.dll": assembled(folder, name="x.dll", f="vpaddd %zmm1, %zmm2, %zmm3").read_bytes(),
        "x.dylib": code,
        "y.dylib": universal(intel=(X86_64, code), arm=(ARM64, macho(bytes(64), ARM64))),
    }


def damaged(whole: bytes, chance: random.Random) -> bytes:
    content = bytearray(whole)
    kind = chance.randrange(4)
    if kind == 0:
        return bytes(content[: chance.randrange(len(content))])
    # Headers are at both ends; damage there does more than anywhere else.
    reach = len(content) if kind == 1 else min(len(content), 1200)
    for _ in range(chance.randrange(1, 12)):
        at = chance.randrange(reach)
        content[at if kind < 3 else len(content) - 1 - at] ^= 1 << chance.randrange(8)
        if chance.random() < 0.2:
            content[at : at + 4] = b"\xff" * 4
    return bytes(content)


def try_all(folder: Path, rounds: int) -> Iterator[str]:
    chance = random.Random(4)
    for name, whole in originals(folder).items():
        for _ in range(rounds):
            path = folder / f"damaged-{name}"
            path.write_bytes(damaged(whole, chance))
            try:
                read_file(member(path), None)
                yield "read"
            except BadInput as error:
                yield "refused" if path.name in str(error) else f"nameless: {error}"


@pytest.mark.timeout(60)
def test_damaged_files(tmp_path: Path) -> None:
    """In a process of its own: a crash there is a failure here."""
    argv = (sys.executable, "-X", "faulthandler", "-c", PROGRAM, str(tmp_path), str(ROUNDS))
    root = Path(__file__).parents[1]
    done = subprocess.run(argv, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ends = done.stdout.split()
    assert len(ends) == 4 * ROUNDS
    assert ends.count("read") > 20
    assert ends.count("refused") > 60
