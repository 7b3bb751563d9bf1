"""The whole gate on a real build, healthy and spoiled: AVX-512 in it has to stop the wheel."""

import hashlib
import json
import shutil
import subprocess
import zipfile
from pathlib import Path

import lief
import pytest

from hostwheel.smoke.smoke import Request, smoke
from tests.builds import Built

pytestmark = [pytest.mark.build, pytest.mark.timeout(3600)]

LIBRARY = "llama_cpp/lib/libggml-base.so"
SPOILER = "libspoiler.so"

# Runs when it is mapped. A CPU with AVX-512, such as the one of a build machine, notices nothing.
CODE = """
__attribute__((constructor)) static void spoil(void) {
    __asm__ volatile("vpaddd %%zmm0, %%zmm0, %%zmm0" ::: "xmm0");
}
"""


def spoiled(built: Built, folder: Path) -> Path:
    """The folder of a build whose wheel has AVX-512 in it, and that says so of its sha256."""
    out = folder / built.out.name
    (out / "dist").mkdir(parents=True)
    spoil_wheel(built.wheel, out / "dist" / built.wheel.name, folder)
    shutil.copyfile(built.archive, out / "dist" / built.archive.name)
    artifacts = [
        {"name": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        for path in (out / "dist").iterdir()
    ]
    said = {key: built.evidence[key] for key in ("plan", "plan_hash")}
    evidence = {**said, "artifacts": artifacts}
    (out / "build.json").write_text(json.dumps(evidence))
    return out


def spoil_wheel(wheel: Path, target: Path, folder: Path) -> None:
    """Every member as it was, but LIBRARY, and SPOILER beside it."""
    with zipfile.ZipFile(wheel) as healthy, zipfile.ZipFile(target, "w") as copy:
        library = Path(healthy.extract(LIBRARY, folder))
        spoil(library)
        for member in healthy.infolist():
            is_spoiled = member.filename == LIBRARY
            copy.writestr(member, library.read_bytes() if is_spoiled else healthy.read(member))
        copy.write(library.with_name(SPOILER), str(Path(LIBRARY).with_name(SPOILER)))


def spoil(library: Path) -> None:
    """Make `library` need another one that uses AVX-512."""
    spoiler = library.with_name(SPOILER)
    argv = ("gcc", "-shared", "-fPIC", "-mavx512f", "-x", "c", "-", "-o", str(spoiler))
    subprocess.run(argv, input=CODE, text=True, check=True)
    binary = lief.ELF.parse(library)
    assert isinstance(binary, lief.ELF.Binary)
    binary.add_library(SPOILER)
    binary.write(str(library))


def test_a_healthy_build_passes(cpu_avx2_proved: Built) -> None:
    evidence = json.loads((cpu_avx2_proved.out / "smoke.json").read_text())
    assert evidence["passed"], evidence["checks"]
    recorded = {each["name"]: each["sha256"] for each in cpu_avx2_proved.evidence["artifacts"]}
    assert evidence["artifacts"] == recorded


def test_a_build_with_avx512_in_it_fails(cpu_avx2: Built, tmp_path: Path) -> None:
    """A2, A4, A5, A12, A16"""
    evidence = smoke(Request(out=spoiled(cpu_avx2, tmp_path), only=("cpu",)))
    assert not evidence["passed"]
    failed = {check["id"]: check for check in evidence["checks"] if check["outcome"] == "failed"}
    for name in ("it_computes_what_it_computes_here", "llama_server_says_what_it_says_here"):
        check = failed[f"smoke/test_cpu.py::test_emulated_{name}[EPYC-Rome]"]
        assert "signal 4 (Illegal instruction)" in check["reason"]
