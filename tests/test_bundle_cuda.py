"""CUDA's libraries in a bundle: each once, and which of them --prune leaves out."""

import zipfile
from pathlib import Path

import pytest

from tests.bundles import CUDA, build, bundled, cuda_wheel, names, read, wheel

pytestmark = pytest.mark.usefixtures("settings")
pytest_plugins = ["tests.bundle_fixtures"]


def test_c1_c2_c3_c21_cudas_libraries_come_along_each_once(
    packages: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = cuda_wheel(tmp_path / "cuda", tmp_path / "more")
    out = build(tmp_path / "out" / "a10g", made, cuda=CUDA)
    (tmp_path / "terms.txt").write_text("what we agreed\n")
    assert bundled(out, "--license", tmp_path / "terms.txt", "-o", tmp_path / "s.zip") == 0
    assert read(tmp_path / "s.zip", "licenses/terms.txt") == "what we agreed\n"
    inside = [
        name
        for path in names(tmp_path / "s.zip")
        if path.endswith(".whl")
        for name in wheel_names(tmp_path / "s.zip", path)
    ]
    for library in ("libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13", "libnvrtc.so.13"):
        assert sum(name.endswith(f"/{library}") for name in inside) == 1
    assert sum(name.endswith("/llama-server") for name in inside) == 1
    assert "terms of nvidia_cublas" in read(
        tmp_path / "s.zip", "licenses/nvidia-cublas/License.txt"
    )
    assert "580.65.06" in read(tmp_path / "s.zip", "README.txt")
    assert "CUDA's libraries            3" in capsys.readouterr().out


def wheel_names(archive: Path, path: str) -> list[str]:
    with zipfile.ZipFile(archive) as content, zipfile.ZipFile(content.open(path)) as inner:
        return inner.namelist()


def test_prune_leaves_out_what_nothing_loads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = cuda_wheel(tmp_path / "cuda", tmp_path / "more")
    out = build(tmp_path / "out" / "a10g", made, cuda=CUDA)
    assert bundled(out, "--prune", "-o", tmp_path / "s.zip") == 0
    kept = [name.split("-")[0] for name in names(tmp_path / "s.zip") if "/nvidia_" in name]
    assert kept == ["wheels/nvidia_cublas", "wheels/nvidia_cuda_runtime"]
    told = capsys.readouterr().out
    assert "left out: nvidia-cuda-nvrtc, 0.0 MB, which nothing loads at its start;" in told
    assert "; libcublas.so.13 may open it later" in told
    said = read(tmp_path / "s.zip", "requirements.txt")
    assert "pip install --no-deps" in said
    assert "nvidia-cuda-nvrtc==" not in said


def test_prune_keeps_what_the_users_own_packages_require(tmp_path: Path) -> None:
    made = cuda_wheel(tmp_path / "cuda", tmp_path / "more")
    out = build(tmp_path / "out" / "a10g", made, cuda=CUDA)
    wheel(tmp_path / "more", "jit-1.0-py3-none-any.whl", {"jit.py": b""}, "nvidia-cuda-nvrtc")
    (tmp_path / "requirements.txt").write_text("jit\n")
    theirs = ("--requirements", tmp_path / "requirements.txt")
    assert bundled(out, "--prune", *theirs, "-o", tmp_path / "s.zip") == 0
    assert any("/nvidia_cuda_nvrtc" in name for name in names(tmp_path / "s.zip"))
