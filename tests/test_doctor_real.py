"""The doctor on real files: installed packages, wheels of ours and of others, never imported."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from hostwheel.__main__ import main
from hostwheel.errors import MachineLacks
from hostwheel.facts.host import Host
from hostwheel.user import doctor_command, doctor_site
from hostwheel.user.capture_host import host_of
from hostwheel.user.capture_machine import Machine
from hostwheel.user.doctor_build import Build, installed_build
from hostwheel.user.doctor_site import OPENMP, copies, loader_cache, located, read_site
from tests.audits import function, library, pack, planned_wheel
from tests.plans import AVX512, link, plan_for, text_files
from tests.users import A10G, machine, site, small_wheel

LOUD = b"raise SystemExit('imported')\n"
G5_HOST = host_of(machine("zen2", A10G))


def on(monkeypatch: pytest.MonkeyPatch, made: Machine) -> None:
    monkeypatch.setattr(doctor_command, "this_machine", lambda: made)


@pytest.fixture
def env(tmp_path: Path) -> Path:
    """A new environment without pip."""
    folder = tmp_path / "env"
    subprocess.run(
        (sys.executable, "-m", "uv", "venv", "-q", "-p", sys.executable, folder), check=True
    )
    return folder


def packages(env: Path) -> Path:
    (found,) = env.glob("lib/python3*/site-packages")
    return found


def install(wheel: Path, env: Path) -> None:
    argv = (sys.executable, "-m", "uv", "pip", "install", "-q", "--no-deps", "--offline")
    subprocess.run((*argv, "-p", str(env / "bin" / "python"), str(wheel)), check=True)


def our_wheel(folder: Path, recipe: str, more: Mapping[str, bytes] | None = None) -> Path:
    """Of a recipe: what a wheel says of itself, and one library."""
    plan = plan_for(recipe)
    made = link(folder / "libllama.so", runpath="$ORIGIN")
    files = {
        **text_files(plan),
        "llama_cpp/__init__.py": LOUD,
        "llama_cpp/lib/libllama.so": made.read_bytes(),
        **(more or {}),
    }
    return planned_wheel(folder / "dist", plan, files)


def cuda_user(folder: Path, runpath: str) -> bytes:
    """A libggml-cuda that asks for CUDA 13's runtime."""
    stub = link(folder / "stub" / "libcudart.so", runpath="")
    subprocess.run(
        ("gcc", "-shared", "-Wl,-soname,libcudart.so.13", "-o", str(stub), "-xc", "/dev/null"),
        check=True,
    )
    needs = ("-Wl,--no-as-needed", str(stub))
    return link(folder / "libggml-cuda.so", "", *needs, runpath=runpath).read_bytes()


def others_wheel(folder: Path, code: str, *flags: str) -> Path:
    """A wheel of llama_cpp for which libggml-cpu.so was compiled somewhere."""
    backend = library(
        folder / "libggml-cpu.so", function("ggml_backend_cpu_reg"), function("kernel", code)
    )
    info = "llama_cpp_python-0.3.1.dist-info"
    metadata = b"Metadata-Version: 2.1\nName: llama_cpp_python\nVersion: 0.3.1\n"
    files = {
        "llama_cpp/__init__.py": LOUD,
        "llama_cpp/lib/libggml-cpu.so": backend.read_bytes(),
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-linux_x86_64\n",
    }
    return pack(folder / "dist" / "llama_cpp_python-0.3.1-py3-none-linux_x86_64.whl", files)


# installed


def test_an_installed_build_is_found_and_not_imported(
    env: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    install(our_wheel(tmp_path, "cpu-avx2"), env)
    on(monkeypatch, machine("zen2"))
    assert main(["doctor", "--python", str(env)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("llama_cpp_python 0.3.36+cpu.avx2 runs here\n")
    assert "needs sse3" in said
    on(monkeypatch, machine("sandybridge"))
    assert main(["doctor", "--python", str(env)]) == 1
    said = capsys.readouterr().out
    assert said.startswith("llama_cpp_python 0.3.36+cpu.avx2 cannot run here as it is\n")
    assert "lacks avx2 bmi2 f16c fma" in said
    assert "→ hostwheel pick URL --install" in said


def test_json(
    env: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    install(our_wheel(tmp_path, "a10g"), env)
    on(monkeypatch, machine("zen2", A10G, driver="535.54.03"))
    assert main(["doctor", "--python", str(env), "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    (report,) = said["reports"]
    assert report["standing"] == "stops"
    assert said["machine"]["gpu"]["driver"] == "535.54.03"
    (bad,) = (each for each in report["findings"] if each["standing"] != "well")
    assert (bad["check"], bad["message"]) == (
        "driver",
        "needs NVIDIA driver 580.65.06 or newer, here is 535.54.03",
    )


def test_where_nothing_is_installed(env: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--python", str(env)]) == MachineLacks.exit_code
    assert f"no llama_cpp in the packages of {env}/bin/python; hostwheel" in capsys.readouterr().err


def test_a_damaged_account_of_itself_is_told(
    env: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(our_wheel(tmp_path, "cpu-avx2"), env)
    (packages(env) / "llama_cpp" / "hostwheel" / "build-info.json").write_text("{")
    assert main(["doctor", "--python", str(env)]) == 2
    assert "build-info.json: is not JSON" in capsys.readouterr().err
    (packages(env) / "llama_cpp" / "hostwheel" / "build-info.json").write_text('{"schema": 2}')
    assert main(["doctor", "--python", str(env)]) == 2
    assert "has schema 2, this hostwheel reads 1: use a newer one" in capsys.readouterr().err


def installed(env: Path, host: Host = G5_HOST) -> Build:
    found = read_site([packages(env)], {})
    return installed_build(found.copies[0], found, host)


def test_cuda_libraries_are_found_where_the_loader_finds_them(
    env: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C1, C3: by the RUNPATH into site-packages, and where they are missing, missing"""
    monkeypatch.setattr(doctor_site, "loader_cache", dict)  # this machine's CUDA
    monkeypatch.setattr(doctor_site, "SYSTEM_FOLDERS", ())
    runpath = "$ORIGIN/../../nvidia/cu13/lib:$ORIGIN"
    name = "llama_cpp/lib/libggml-cuda.so"
    install(our_wheel(tmp_path, "a10g", {name: cuda_user(tmp_path, runpath)}), env)
    (wanted,) = installed(env).cuda
    assert (wanted.name, wanted.user, wanted.path) == ("libcudart.so.13", "libggml-cuda.so", None)
    place = packages(env) / "nvidia" / "cu13" / "lib" / "libcudart.so.13"
    place.parent.mkdir(parents=True)
    place.touch()
    (found,) = installed(env).cuda
    assert found.path
    assert found.path.resolve() == place


def test_the_loaders_order(tmp_path: Path) -> None:
    """ld.so(8): LD_LIBRARY_PATH, RUNPATH, cache."""
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / "libx.so.1").touch()
    cached = site(cache={"libx.so.1": "/cached/libx.so.1"})
    given = read_site([], {"LD_LIBRARY_PATH": f":{first}"})
    assert located("libx.so.1", [second], given) == first / "libx.so.1"
    assert located("libx.so.1", [second], cached) == second / "libx.so.1"
    assert located("libx.so.1", [], cached) == Path("/cached/libx.so.1")
    assert located("libx.so.1", [], site()) is None


def test_the_loaders_cache_is_read() -> None:
    cache = loader_cache()
    assert Path(cache["libc.so.6"]).is_file()


def test_copies_are_found_in_pythons_order(env: Path, tmp_path: Path) -> None:
    """A13: one in the working directory hides the installed one"""
    install(small_wheel(tmp_path, "0.3.36+cpu.avx2"), env)
    here = tmp_path / "here"
    (here / "llama_cpp").mkdir(parents=True)
    (here / "llama_cpp" / "__init__.py").touch()
    found = list(copies([here, packages(env), tmp_path / "nowhere", here]))
    assert [each.owners for each in found] == [(), ("llama_cpp_python 0.3.36+cpu.avx2",)]


def test_two_copies_are_told(
    env: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A13"""
    install(our_wheel(tmp_path, "cpu-avx2"), env)
    (tmp_path / "llama_cpp").mkdir()
    (tmp_path / "llama_cpp" / "__init__.py").write_bytes(LOUD)
    monkeypatch.chdir(tmp_path)
    on(monkeypatch, machine("zen2"))
    assert main(["doctor", "--python", str(env), "--json"]) == 1
    (report,) = json.loads(capsys.readouterr().out)["reports"]
    bad = {each["check"]: each for each in report["findings"] if each["standing"] != "well"}
    assert [each["standing"] for each in bad.values()] == ["stops", "slows"]
    assert bad["files"]["message"] == f"no library of llama.cpp is in {tmp_path}/llama_cpp"
    assert "which nobody installed, hides" in bad["copies"]["message"]
    assert f"{packages(env)}/llama_cpp (llama_cpp_python 0.3.36" in bad["copies"]["message"]
    assert {each["remedy"] for each in bad.values()} == {f"move {tmp_path}/llama_cpp away"}


def test_two_distributions_of_one_folder_are_found(env: Path, tmp_path: Path) -> None:
    """A13"""
    install(small_wheel(tmp_path), env)
    second = packages(env) / "llama_cpp_python_cuda-0.3.4.dist-info"
    second.mkdir()
    (second / "METADATA").write_text("Name: llama_cpp_python_cuda\nVersion: 0.3.4\n")
    (second / "RECORD").write_text("llama_cpp/__init__.py,sha256=x,1\n")
    (found,) = copies([packages(env)])
    assert {each.split()[0] for each in found.owners} == {
        *("llama_cpp_python", "llama_cpp_python_cuda")
    }


def test_openmp_runtimes_of_packages_are_found(env: Path) -> None:
    """torch's, scikit-learn's and Intel's, by the places where their wheels put them"""
    here = packages(env)
    names = (
        "torch/lib/libgomp-a34b3233.so.1",
        "torch/lib/libtorch.so",
        "scikit_learn.libs/libgomp-d22c30c5.so.1.0.0",
        "../../libiomp5.so",
    )
    for name in names:
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).touch()
    (here / "torch" / "lib" / "libgomp.so.1").symlink_to("libgomp-a34b3233.so.1")
    found = [path.name for path in read_site([here], {}).openmp]
    assert len(found) == 3
    assert set(found) == {*("libgomp-a34b3233.so.1", "libgomp-d22c30c5.so.1.0.0", "libiomp5.so")}


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        *(("libgomp.so.1", True), ("libomp.so", True), ("libomp.so.5", True)),
        *(("libompstub.so", False), ("libgomp.a", False), ("libcomp.so", False)),
    ],
)
def test_names_of_openmp_runtimes(name: str, is_one: bool) -> None:
    assert bool(OPENMP.fullmatch(name)) is is_one


# wheels


def test_anothers_wheel_with_avx512_cannot_run_on_zen_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A9, A10: by its instructions, whatever it says of itself"""
    wheel = others_wheel(tmp_path, AVX512)
    on(monkeypatch, machine("zen2"))
    assert main(["doctor", str(wheel)]) == 1
    said = capsys.readouterr().out
    assert said.startswith("llama_cpp_python-0.3.1-py3-none-linux_x86_64.whl cannot run here")
    assert "libggml-cpu.so needs avx512f, which the CPU" in said
    on(monkeypatch, machine("zen4"))
    assert main(["doctor", str(wheel)]) == 0
    assert "nothing in its code needs what this CPU lacks" in capsys.readouterr().out


def test_anothers_installed_build_is_read_too(env: Path, tmp_path: Path) -> None:
    install(others_wheel(tmp_path, AVX512), env)
    found = installed(env)
    assert not found.ours
    assert found.lacking == ("libggml-cpu.so needs avx512f",)
    assert found.name == "llama_cpp_python 0.3.1"


def test_our_wheel_before_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "llama_cpp/lib/libggml-cuda.so"
    wheel = our_wheel(tmp_path, "a10g", {name: cuda_user(tmp_path, "$ORIGIN")})
    on(monkeypatch, machine("zen2", A10G))
    assert main(["doctor", str(wheel)]) == 0
    said = capsys.readouterr().out
    assert "libcudart.so.13 comes with a dependency of the wheel" in said
    assert "has sm_86, which NVIDIA A10G (sm_86) runs" in said


def test_a_wheel_for_another_system_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = others_wheel(tmp_path, "nop")
    other = wheel.with_name(wheel.name.replace("linux_x86_64", "win_amd64"))
    wheel.rename(other)
    assert main(["doctor", str(other)]) == 1
    assert "is for win_amd64, this is Linux on x86-64 with glibc" in capsys.readouterr().out


def test_what_is_no_build_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.whl").write_text("no zip")
    assert main(["doctor", str(tmp_path / "x.whl")]) == 2
    assert main(["doctor", str(tmp_path / "none.whl")]) == 2
    assert "none.whl" in capsys.readouterr().err
