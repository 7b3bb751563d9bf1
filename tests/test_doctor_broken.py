"""The doctor on what is broken, or no build at all: which part is gone, what to give instead."""

import json
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from hostwheel.__main__ import main
from hostwheel.user import doctor_command, doctor_site
from hostwheel.user.capture_machine import Machine
from hostwheel.user.doctor import missing
from hostwheel.user.doctor_build import Library
from hostwheel.user.doctor_site import copies
from tests.audits import pack
from tests.plans import link
from tests.test_doctor_real import cuda_user, env, install, our_wheel, packages
from tests.users import A10G, machine

__all__ = ["env"]


@pytest.fixture(autouse=True)
def zen2(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = machine("zen2", A10G)
    monkeypatch.setattr(doctor_command, "this_machine", lambda: made)
    return made


def bad(
    capsys: pytest.CaptureFixture[str], code: int, *arguments: str | Path
) -> Sequence[tuple[str, str, str, str]]:
    """What the doctor finds: check, standing, message and remedy."""
    assert main(["doctor", "--json", *map(str, arguments)]) == code
    (report,) = json.loads(capsys.readouterr().out)["reports"]
    return [
        (each["check"], each["standing"], each["message"], each["remedy"])
        for each in report["findings"]
        if each["standing"] in ("stops", "undecided")
    ]


def refusal(capsys: pytest.CaptureFixture[str], path: Path) -> str:
    assert main(["doctor", str(path)]) == 2
    return capsys.readouterr().err


def needing(folder: Path, user: str, name: str) -> bytes:
    """A library that asks for another one."""
    stub = link(folder / "stub" / "libany.so", "", f"-Wl,-soname,{name}", runpath="")
    needs = ("-Wl,--no-as-needed", str(stub))
    return link(folder / user, "", *needs, runpath="$ORIGIN").read_bytes()


# installed


@pytest.mark.parametrize("user", ["libggml.so", "libggml-vulkan.so"])
def test_a_part_of_its_own_that_is_gone_stops_it(
    user: str, env: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cpu = link(tmp_path / "libggml-cpu.so", runpath="$ORIGIN").read_bytes()
    more = {
        f"llama_cpp/lib/{user}": needing(tmp_path, user, "libggml-cpu.so"),
        "llama_cpp/lib/libggml-cpu.so": cpu,
    }
    install(our_wheel(tmp_path, "a10g", more), env)
    assert bad(capsys, 0, "--python", env) == []
    (packages(env) / "llama_cpp" / "lib" / "libggml-cpu.so").unlink()
    message = f"{user} needs libggml-cpu.so, which is not here: it cannot be loaded"
    again = "install it again: pip uninstall -y llama_cpp_python, then hostwheel pick URL --install"
    assert bad(capsys, 1, "--python", env) == [("libraries", "stops", message, again)]


def test_a_plug_in_that_record_names_is_missed_too(
    env: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "llama_cpp/lib/libggml-cpu-haswell.so"
    haswell = link(tmp_path / "libggml-cpu-haswell.so", runpath="$ORIGIN").read_bytes()
    install(our_wheel(tmp_path, "a10g", {name: haswell}), env)
    (packages(env) / name).unlink()
    ((check, standing, message, _),) = bad(capsys, 1, "--python", env)
    assert (check, standing) == ("files", "stops")
    assert message == f"{name}, which was installed with it, is no longer there"


@pytest.mark.parametrize(
    ("user", "code", "standing"),
    [("libggml.so", 1, "stops"), ("libggml-vulkan.so", 0, "undecided")],
)
def test_what_the_core_needs_stops_it_and_what_a_plug_in_needs_may_not(
    user: str,
    code: int,
    standing: str,
    env: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    more = {f"llama_cpp/lib/{user}": needing(tmp_path, user, "libnowhere.so.1")}
    install(our_wheel(tmp_path, "a10g", more), env)
    ((check, found, message, _),) = bad(capsys, code, "--python", env)
    assert (check, found) == ("libraries", standing)
    assert message.startswith(f"{user} needs libnowhere.so.1, which is not here")


def test_a_package_of_another_project_is_no_copy(tmp_path: Path) -> None:
    for name in ("llama_cpp_agent", "llama_cpp_cuda", "llama_cpp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    (tmp_path / "llama_cpp_cuda" / "libllama.so").touch()
    assert {each.folder.name for each in copies([tmp_path])} == {"llama_cpp", "llama_cpp_cuda"}


# files


def test_what_holds_no_llama_cpp_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "llama.txt").write_text("hello")
    (tmp_path / "ggml-llama.gguf").write_bytes(b"GGUF" + bytes(64))
    info = "jinja2-3.1.dist-info"
    files = {
        "jinja2/__init__.py": b"",
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: jinja2\nVersion: 3.1\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\n",
    }
    jinja2 = pack(tmp_path / "jinja2-3.1-py3-none-any.whl", files)
    for path in (tmp_path / "llama.txt", tmp_path / "ggml-llama.gguf", jinja2):
        assert f"{path}: no llama.cpp in it: none of its files" in refusal(capsys, path)


def test_a_folder_of_builds_names_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel = our_wheel(tmp_path, "a10g")
    assert f"is a folder of builds, give one: {wheel.name}" in refusal(capsys, wheel.parent)


def test_a_bundle_names_its_wheel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with zipfile.ZipFile(tmp_path / "submission.zip", "w") as archive:
        archive.writestr("bundle.json", "{}")
    said = refusal(capsys, tmp_path / "submission.zip")
    assert "is a bundle of `hostwheel bundle`: unpack it, and give the llama_cpp_python" in said
    assert "or run there: python install.py --check" in said


def test_an_archive_without_cuda_is_told_where_to_put_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """C1, C3: its loader does not look into Python's packages"""
    monkeypatch.setattr(doctor_site, "loader_cache", dict)  # this machine's CUDA
    monkeypatch.setattr(doctor_site, "SYSTEM_FOLDERS", ())
    lib = tmp_path / "llama-server" / "lib" / "llama_cpp" / "lib"
    lib.mkdir(parents=True)
    made = cuda_user(tmp_path, "$ORIGIN/../../nvidia/cu13/lib:$ORIGIN")
    (lib / "libggml-cuda.so").write_bytes(made)
    with tarfile.open(tmp_path / "llama-server.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "llama-server", "llama-server")
    told = bad(capsys, 1, tmp_path / "llama-server.tar.gz")
    ((*_, remedy),) = (each for each in told if each[0] == "CUDA")
    assert remedy == (
        "in the unpacked archive's folder: pip install --target lib"
        ' "nvidia-cuda-runtime>=13,<14"; or `hostwheel bundle`, which brings it'
    )


def test_anothers_archive_may_look_nowhere() -> None:
    library = Library(name="libcudart.so.13", user="libggml-cuda.so", path=None)
    remedy = missing(library, in_archive=True).remedy
    assert remedy.startswith("export LD_LIBRARY_PATH=FOLDER, that of libcudart.so.13: pip install")
