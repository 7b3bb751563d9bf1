"""cpu-avx2, built in full from the real archive, installed afresh, asked, and emulated."""

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hostwheel.artifact.symbols import load_symbol_map
from hostwheel.plan.defines import TOOLS
from smoke.installed import unpack
from smoke.recorded import ANSWER, QUESTION
from tests.answers import ASK, COMPLETE, COMPLETION, ask_server, served
from tests.builds import Built, Installed

pytestmark = [pytest.mark.build, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def unpacked(cpu_avx2: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive, unpacked somewhere."""
    folder = tmp_path_factory.mktemp("archive")
    unpack(cpu_avx2.archive, folder)
    return folder / cpu_avx2.archive.name.removesuffix(".tar.gz")


def test_the_evidence_speaks_of_exactly_these_files(cpu_avx2: Built) -> None:
    dist = cpu_avx2.out / "dist"
    recorded = {item["name"]: item["sha256"] for item in cpu_avx2.evidence["artifacts"]}
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in dist.iterdir()}
    assert recorded == found
    assert set(found) == {cpu_avx2.wheel.name, cpu_avx2.archive.name}
    assert cpu_avx2.evidence["plan_hash"] == cpu_avx2.evidence["plan"]["hash"]
    assert cpu_avx2.evidence["cmake_cache"]["GGML_NATIVE"] == "OFF"
    assert len(cpu_avx2.evidence["compile_commands"]) > 100


def test_the_wheel_has_the_planned_name_and_each_library_once(cpu_avx2: Built) -> None:
    assert cpu_avx2.wheel.name.startswith("llama_cpp_python-0.3.36+cpu.avx2-py3-none-manylinux_")
    with zipfile.ZipFile(cpu_avx2.wheel) as wheel:
        names = wheel.namelist()
    libraries = [name for name in names if ".so" in name]
    assert all(name.startswith("llama_cpp/lib/lib") and name.endswith(".so") for name in libraries)
    assert len({Path(name).name for name in libraries}) == len(libraries) == 9
    top = {name.split("/")[0] for name in names}
    base = "llama_cpp_python-0.3.36+cpu.avx2"
    assert top == {"llama_cpp", f"{base}.dist-info", f"{base}.data"}


def test_every_shipped_file_has_its_function_names_saved(cpu_avx2: Built) -> None:
    maps = list((cpu_avx2.out / "symbols").glob("*.json"))
    assert len(maps) == 9 + len(TOOLS)
    largest = max(maps, key=lambda path: path.stat().st_size)
    symbols = load_symbol_map(largest.parent, largest.stem)
    assert symbols is not None
    assert len(symbols.functions) > 1000


def test_no_path_of_this_machine_is_in_the_wheel(cpu_avx2: Built) -> None:
    with zipfile.ZipFile(cpu_avx2.wheel) as wheel:
        for name in wheel.namelist():
            assert b"/var/tmp/hostwheel" not in wheel.read(name), name


def test_the_binding_answers_as_recorded(cpu_avx2_installed: Installed, smollm2: Path) -> None:
    done = cpu_avx2_installed.run("python", "-c", ASK, smollm2, QUESTION)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ANSWER


def test_the_version_carries_the_label_everywhere(cpu_avx2_installed: Installed) -> None:
    show = "import llama_cpp, importlib.metadata as metadata; print(llama_cpp.__version__)"
    done = cpu_avx2_installed.run(
        "python", "-c", show + "; print(metadata.version('llama-cpp-python'))"
    )
    assert done.stdout.split() == ["0.3.36+cpu.avx2"] * 2, done.stderr


@pytest.mark.parametrize("tool", TOOLS)
def test_the_tools_are_on_the_path_after_installing(
    cpu_avx2_installed: Installed, tool: str
) -> None:
    done = cpu_avx2_installed.run(tool, "--help")
    assert "usage" in (done.stdout + done.stderr).lower()


def test_pip_in_a_path_with_a_space_gives_working_tools(cpu_avx2: Built, tmp_path: Path) -> None:
    python = tmp_path / "sp ace" / "bin" / "python"
    subprocess.run((sys.executable, "-m", "venv", python.parents[1]), check=True)
    pip = (python, "-m", "pip", "install", "--quiet", "--no-deps")
    subprocess.run((*pip, cpu_avx2.wheel), check=True)
    for tool in TOOLS:
        done = subprocess.run((python.with_name(tool), "--help"), capture_output=True, text=True)
        assert "usage" in (done.stdout + done.stderr).lower()


def test_a_target_folder_starts_its_own_tools(cpu_avx2: Built, tmp_path: Path) -> None:
    """Not those of another llama_cpp that Python would find."""
    target, other = tmp_path / "target", tmp_path / "other"
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target)
    subprocess.run((*pip, cpu_avx2.wheel), check=True)
    (other / "llama_cpp").mkdir(parents=True)
    (other / "llama_cpp" / "__init__.py").touch()
    env = {"PYTHONPATH": str(other), "PATH": "/usr/bin:/bin"}
    argv = (target / "bin" / "llama-server", "--version")
    done = subprocess.run(argv, cwd=other, env=env, capture_output=True, text=True)
    assert done.returncode == 0
    assert "0c1e57098bba" in done.stdout + done.stderr


def test_llama_server_from_the_archive_answers_as_recorded(
    unpacked: Path, smollm2: Path, tmp_path: Path
) -> None:
    with served(unpacked / "bin" / "llama-server", smollm2, tmp_path) as address:
        assert ask_server(address).strip() == ANSWER


def test_the_archive_is_the_wheels_bytes(cpu_avx2: Built, unpacked: Path) -> None:
    with zipfile.ZipFile(cpu_avx2.wheel) as wheel:
        for path in (unpacked / "lib" / "llama_cpp" / "lib").iterdir():
            assert path.read_bytes() == wheel.read(f"llama_cpp/lib/{path.name}"), path.name


def test_on_a_cpu_without_avx_the_import_is_refused_with_a_paragraph(
    cpu_avx2_installed: Installed, emulator: str
) -> None:
    done = cpu_avx2_installed.run(
        "python", "-c", "import llama_cpp", wrap=(emulator, "-cpu", "Westmere")
    )
    assert done.returncode == 1
    assert "ImportError: llama.cpp 0.3.36+cpu.avx2 cannot run on this CPU (Westmere" in done.stderr
    assert "lacks: avx f16c fma bmi2 avx2." in done.stderr


@pytest.mark.parametrize("tool", TOOLS)
def test_on_a_cpu_without_avx_the_tools_refuse_with_the_same_paragraph(
    unpacked: Path, emulator: str, tool: str
) -> None:
    argv = (emulator, "-cpu", "Westmere", unpacked / "lib" / "llama_cpp" / "lib" / tool)
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 3
    assert "llama.cpp 0.3.36+cpu.avx2 cannot run on this CPU (Westmere" in done.stderr
    assert "lacks: avx f16c fma bmi2 avx2." in done.stderr


def test_on_the_emulated_host_the_model_answers(
    cpu_avx2_installed: Installed, emulator: str, smollm2: Path
) -> None:
    wrap = (emulator, "-cpu", "EPYC-Rome")
    done = cpu_avx2_installed.run("python", "-c", COMPLETE, smollm2, wrap=wrap, timeout=900)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip() == COMPLETION
