"""`python -m llama_cpp.hostwheel` of a small wheel that pip installed."""

import base64
import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from venv import EnvBuilder

import pytest

from hostwheel.build.project import write_project
from hostwheel.facts import cpuid
from hostwheel.plan.plan import Plan
from hostwheel.smoke.emulate import EMULATOR, emulated
from tests.plans import COMPILERS, need, plan_for, upstream_source, write_wheel

PLAN = plan_for("cpu-avx2")
CUDA = plan_for("a10g")
HERE = dataclasses.replace(PLAN, features=cpuid.Cpu().features)
OLD_PYTHONS = sorted(Path.home().glob(".pyenv/versions/3.8*/bin/python"))
MODULE = ("-m", "llama_cpp.hostwheel")
WHEEL = "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n"


def installed(plan: Plan, folder: Path) -> Path:
    """A site-packages into which pip put the project's Python, one library and one script."""
    write_project(plan, upstream_source(folder / "src"), folder / "project", COMPILERS)
    base = f"llama_cpp_python-{plan.version}"
    files = {
        **{
            str(path.relative_to(folder / "project")): path.read_bytes()
            for path in sorted((folder / "project" / "llama_cpp").rglob("*"))
            if path.is_file()
        },
        "llama_cpp/lib/libllama.so": b"a library",
        f"{base}.data/scripts/llama-server": b"#!python\n",
        f"{base}.dist-info/WHEEL": WHEEL.encode(),
        f"{base}.dist-info/METADATA": (
            f"Metadata-Version: 2.2\nName: llama_cpp_python\nVersion: {plan.version}\n".encode()
        ),
    }
    record = f"{base}.dist-info/RECORD"
    wheel = folder / f"{base}-py3-none-any.whl"
    write_wheel(wheel, {**files, record: record_of(files, record)})
    EnvBuilder(symlinks=True).create(folder / "venv")
    pip = (sys.executable, "-m", "pip", "--python", str(folder / "venv" / "bin" / "python"))
    subprocess.run((*pip, "install", "-q", "--no-deps", "--no-index", str(wheel)), check=True)
    return site_packages(folder / "venv")


def site_packages(venv: Path) -> Path:
    return next(venv.glob("lib/python*/site-packages"))


def record_of(files: Mapping[str, bytes], record: str) -> bytes:
    lines = [f"{name},sha256={digest(content)},{len(content)}\n" for name, content in files.items()]
    return "".join([*lines, f"{record},,\n"]).encode()


def digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(HERE, tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def site(pristine: Path, tmp_path: Path) -> Path:
    shutil.copytree(pristine.parents[2], tmp_path / "venv", symlinks=True)
    return site_packages(tmp_path / "venv")


def ran(site: Path, *argv: str) -> tuple[int, str, str]:
    env = {**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def asked(site: Path, *options: str) -> tuple[int, str]:
    code, out, said = ran(site, sys.executable, *MODULE, *options)
    assert said == ""
    return code, out


def answer(site: Path, *options: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(asked(site, "--json", *options)[1])
    return found


def test_it_says_what_the_plan_says(site: Path) -> None:
    said = answer(site)
    assert (said["version"], said["label"], said["recipe"]) == (
        "0.3.36+cpu.avx2",
        "cpu.avx2",
        "cpu-avx2",
    )
    assert said["host"]["name"] == "x86-64-v3"
    assert said["features"] == list(HERE.features)
    flags = ["-msse4.2", "-mavx", "-mf16c", "-mfma", "-mbmi2", "-mavx2"]
    assert [(code["name"], code["flags"]) for code in said["backends"]] == [("ggml-cpu", flags)]
    assert said["plan_hash"] == HERE.hash
    assert said["source"] == {
        "version": "0.3.36",
        "sha256": PLAN.source.sha256,
        "llama_cpp_commit": "0c1e57098bba",
        "patches": dict(PLAN.patches),
    }
    assert said["compiler"] == "GCC 12.2.0"


def test_it_has_the_hash_of_the_sbom(site: Path, tmp_path: Path) -> None:
    write_project(HERE, upstream_source(tmp_path / "src"), tmp_path / "project", COMPILERS)
    content = (tmp_path / "project" / "hostwheel.cdx.json").read_bytes()
    assert answer(site)["sbom"]["sha256"] == hashlib.sha256(content).hexdigest()


def test_it_tells_every_define_of_ggml_and_no_folder_of_the_build_machine(site: Path) -> None:
    told = answer(site)["defines"]
    assert {name for name in PLAN.defines if name.startswith("GGML_")} <= told.keys()
    assert told["GGML_AVX512"] == "OFF"
    assert "/var/tmp" not in json.dumps(told)


def test_people_read_the_same(site: Path) -> None:
    code, text = asked(site)
    assert code == 0
    said = " ".join(text.split())
    assert said.startswith(f"llama-cpp-python 0.3.36+cpu.avx2 label cpu.avx2 recipe {PLAN.recipe} ")
    for value in (*HERE.features, PLAN.source.sha256, HERE.hash, "0c1e57098bba", *PLAN.patches):
        assert value in said
    assert "GGML_AVX2=ON" in said
    assert "GGML_AVX512" not in said
    assert "CUDA" not in said.replace("GGML_CUDA", "")
    assert max(map(len, text.splitlines())) <= 100


def test_a_cuda_build_names_toolkit_architecture_driver_and_requirements(tmp_path: Path) -> None:
    """Also where CUDA's libraries are missing, as here: the question is answered before."""
    site = installed(CUDA, tmp_path)
    said = " ".join(asked(site)[1].split())
    assert "CUDA toolkit 13.0.2, machine code for sm_86 driver 580.65.06 or newer requires" in said
    assert answer(site)["cuda"]["driver"] == "580.65.06"


def test_a_build_of_all_variants_tells_the_flags_of_each(tmp_path: Path) -> None:
    said = " ".join(asked(installed(plan_for("cpu-any"), tmp_path))[1].split())
    assert "CPU needs nothing beyond x86-64 CPU code ggml-cpu-x64: no flags" in said
    assert "CPU code ggml-cpu-ivybridge: -msse4.2 -mavx -mf16c CPU code" in said


def test_the_answer_needs_no_library(site: Path) -> None:
    """`import llama_cpp` would map them; its first own statement prints "mapped"."""
    assert "mapped" not in asked(site)[1]
    assert ran(site, sys.executable, "-c", "import llama_cpp") == (0, "mapped\n", "")


def test_another_program_with_that_name_among_its_words_is_left_alone(
    site: Path, tmp_path: Path
) -> None:
    """Whatever it does to sys.argv before it imports llama_cpp."""
    code = "import sys; sys.argv = sys.argv[-1:]; import llama_cpp; print('went on')\n"
    (tmp_path / "mine.py").write_text(code)
    env = {**os.environ, "PYTHONPATH": f"{site}:{tmp_path}"}
    argv = (sys.executable, "-m", "mine", "-m", "llama_cpp.hostwheel")
    done = subprocess.run(argv, env=env, capture_output=True, text=True)
    assert done.stdout == "mapped\nwent on\n"


def test_it_answers_on_a_cpu_that_the_build_does_not_fit(tmp_path: Path) -> None:
    need(EMULATOR, "apt-get install qemu-user")
    site = installed(PLAN, tmp_path)
    code, out, said = ran(site, *emulated((sys.executable, *MODULE), "Westmere"))
    assert (code, said) == (0, "")
    assert "CPU needs   sse3 ssse3" in out
    code, out, said = ran(site, *emulated((sys.executable, "-c", "import llama_cpp"), "Westmere"))
    assert (code, out) == (1, "")
    assert "cannot run on this CPU" in said


def test_the_folder_answers_by_its_path(site: Path) -> None:
    """The way without a guard for Python 3.8 and 3.9 on a wrong CPU."""
    by_path = ran(site, sys.executable, "-I", str(site / "llama_cpp" / "hostwheel"))
    assert by_path == (0, asked(site)[1], "")


@pytest.mark.skipif(not OLD_PYTHONS, reason="needs ~/.pyenv/versions/3.8*")
def test_it_runs_on_python_3_8(site: Path) -> None:
    old = (str(OLD_PYTHONS[0]), "-W", "error")
    code, out, said = ran(site, *old, *MODULE, "--verify")
    assert (code, said) == (0, "")
    assert out == "mapped\n" + asked(site, "--verify")[1]


# --verify


def test_files_as_they_were_installed_verify(site: Path) -> None:
    code, text = asked(site, "--verify")
    assert code == 0
    count = answer(site, "--verify")["verified"]["files"]
    assert text.endswith(f"\n\n{count} files are as RECORD says\n")
    lines = (next(site.glob("*.dist-info")) / "RECORD").read_text().splitlines()
    without_hash = [line for line in lines if line.endswith((".pyc,,", "/RECORD,,"))]
    assert count == len(lines) - len(without_hash) > 10


@pytest.mark.parametrize(
    "name",
    [
        "llama_cpp/lib/libllama.so",
        "llama_cpp/hostwheel/build-info.json",
        "../../../bin/llama-server",
    ],
)
def test_a_file_that_was_changed_is_named(site: Path, name: str) -> None:
    fault = (site / name).read_bytes() + b"\n"
    (site / name).write_bytes(fault)
    code, text = asked(site, "--verify")
    assert code == 1
    (line,) = [line for line in text.splitlines() if "RECORD" in line]
    assert line.startswith(f"{name} differs: sha256 is {digest(fault)}, RECORD has ")
    problems = answer(site, "--verify")["verified"]["problems"]
    assert problems == [line]


def test_a_file_that_is_missing_is_named(site: Path) -> None:
    """Python 3.12 and newer would leave it out of the list of files."""
    (site / "llama_cpp" / "lib" / "libllama.so").unlink()
    code, text = asked(site, "--verify")
    assert code == 1
    assert text.endswith("llama_cpp/lib/libllama.so cannot be read: No such file or directory\n")


def test_a_package_without_record_does_not_verify(site: Path) -> None:
    (next(site.glob("*.dist-info")) / "RECORD").unlink()
    code, text = asked(site, "--verify")
    assert code == 1
    assert text.endswith(f"no RECORD of llama_cpp_python in {site}: not installed from a wheel\n")


def test_it_is_the_installation_beside_it_that_is_verified(site: Path, tmp_path: Path) -> None:
    """Another one may come first on sys.path."""
    other = tmp_path / "other" / "llama_cpp_python-9.9.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.2\nName: llama_cpp_python\nVersion: 9.9\n")
    (other / "RECORD").write_text("llama_cpp/gone.py,sha256=x,1\n")
    env = {**os.environ, "PYTHONPATH": f"{other.parent}:{site}"}
    argv = (sys.executable, *MODULE, "--verify")
    assert subprocess.run(argv, env=env, capture_output=True).returncode == 0
