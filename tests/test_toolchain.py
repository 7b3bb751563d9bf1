import dataclasses
import os
import time
from pathlib import Path

import pytest

from hostwheel.build.toolchain import (
    Compiler,
    Toolkit,
    check_gcc,
    check_host_compiler,
    check_runtime,
    compiler_for,
    cuda_toolkit,
    host_compiler,
)
from hostwheel.errors import BadInput, MachineLacks
from tests.plans import plan_for
from tests.test_locked import make_wheel

NVCC = """\
#!/bin/sh
echo "nvcc: NVIDIA (R) Cuda compiler driver"
echo "Cuda compilation tools, release 13.0, V13.0.88"
"""
HEADERS = {
    "include/crt/host_config.h": "#if defined(__GNUC__)\n#if __GNUC__ > 15\n#error no\n",
    "include/cccl/cub/util_cpp_dialect.cuh": "#    if _CCCL_COMPILER(GCC, <, 7)\n",
}
FILES = {
    "bin/nvcc": NVCC,
    "lib/libcudart.so.13": "elf",
    "lib/libcublasLt.so.13": "elf",
    "lib/libcudart_static.a": "ar",
    **HEADERS,
}


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    wheels = tmp_path / "wheels"
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    files = {f"nvidia/cu13/{name}": text for name, text in FILES.items()}
    path = tmp_path / "lock.txt"
    path.write_text(make_wheel(wheels, "nvidia_cuda_nvcc", "13.0.88", files))
    return path


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


def test_a_toolkit_has_the_links_that_cmake_looks_for(lock: Path, tmp_path: Path) -> None:
    root = tmp_path / "work" / "cuda"
    toolkit = cuda_toolkit(lock, root)
    assert toolkit == Toolkit(
        root=root,
        nvcc=root / "bin" / "nvcc",
        version="13.0.88",
        release="13.0",
        packages={"nvidia-cuda-nvcc": "13.0.88"},
    )
    links = {str(path.relative_to(root)): str(path.readlink()) for path in find_links(root)}
    assert links == {
        "lib/libcublasLt.so": "libcublasLt.so.13",
        "lib/libcudart.so": "libcudart.so.13",
        "lib64": "lib",
    }
    assert (root / "lib64" / "libcudart.so").read_text() == "elf"
    assert [path.name for path in root.parent.iterdir()] == ["cuda"]


def find_links(root: Path) -> list[Path]:
    return [path for path in (*root.iterdir(), *(root / "lib").iterdir()) if path.is_symlink()]


def test_an_intact_toolkit_is_reused_and_a_lost_link_is_not(lock: Path, tmp_path: Path) -> None:
    root = tmp_path / "cuda"
    cuda_toolkit(lock, root)
    made = root.stat().st_ino
    cuda_toolkit(lock, root)
    assert root.stat().st_ino == made
    (root / "lib" / "libcudart.so").unlink()
    cuda_toolkit(lock, root)
    assert (root / "lib" / "libcudart.so").is_symlink()


def test_the_machines_own_cuda_does_not_matter(
    lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = script(tmp_path / "usr-local-cuda" / "bin" / "nvcc", "echo release 12.4, V12.4.99\n")
    monkeypatch.setenv("PATH", str(other.parent), prepend=os.pathsep)
    monkeypatch.setenv("CUDA_HOME", str(other.parents[1]))
    monkeypatch.setenv("CUDA_PATH", str(other.parents[1]))
    toolkit = cuda_toolkit(lock, tmp_path / "cuda")
    assert toolkit.nvcc == tmp_path / "cuda" / "bin" / "nvcc"
    assert toolkit.version == "13.0.88"


def test_wheels_without_a_toolkit_are_refused(lock: Path, tmp_path: Path) -> None:
    lock.write_text(make_wheel(tmp_path / "wheels", "hw_one", "1.0", {"hw_one.py": ""}))
    with pytest.raises(BadInput, match=r"nvidia/cu\*; found none"):
        cuda_toolkit(lock, tmp_path / "cuda")
    assert not (tmp_path / "cuda").exists()


def test_an_nvcc_that_does_not_run_or_say_its_release_is_refused(
    lock: Path, tmp_path: Path
) -> None:
    root = tmp_path / "cuda"
    cuda_toolkit(lock, root)
    (root / "bin" / "nvcc").chmod(0o644)
    with pytest.raises(MachineLacks, match="must not be mounted noexec"):
        cuda_toolkit(lock, root)
    (root / "bin" / "nvcc").chmod(0o755)
    (root / "bin" / "nvcc").write_text("#!/bin/sh\necho hello\n".ljust(len(NVCC)))
    with pytest.raises(BadInput, match="does not say 'release"):
        cuda_toolkit(lock, root)


def gcc(folder: Path, name: str, version: str) -> None:
    script(folder / name, f'[ "$1" = -dumpfullversion ] && echo {version}\n')


def test_the_compiler_is_found_by_absolute_path(tmp_path: Path) -> None:
    gcc(tmp_path, "gcc", "12.2.0")
    gcc(tmp_path, "g++", "12.2.0")
    assert host_compiler(str(tmp_path)) == Compiler(
        gcc=tmp_path / "gcc",
        gxx=tmp_path / "g++",
        version=(12, 2, 0),
        version_text="12.2.0",
    )


def test_no_or_a_strange_compiler_is_refused(tmp_path: Path) -> None:
    gcc(tmp_path, "gcc", "12.2.0")
    with pytest.raises(MachineLacks, match=r"no g\+\+ in .*apt-get install g\+\+"):
        host_compiler(str(tmp_path))
    gcc(tmp_path, "g++", "11.4.0")
    with pytest.raises(MachineLacks, match=r"gcc is 12\.2\.0 but .*g\+\+ is 11\.4\.0"):
        host_compiler(str(tmp_path))
    for clang in ("echo clang: error >&2; exit 1\n", "echo clang version 14\n"):
        script(tmp_path / "gcc", clang)
        with pytest.raises(MachineLacks, match="is not GCC"):
            host_compiler(str(tmp_path))
    (tmp_path / "gcc").write_text("not a program")
    with pytest.raises(MachineLacks, match=r"gcc' cannot be run \(Exec format error\)"):
        host_compiler(str(tmp_path))


@pytest.fixture
def toolkit(tmp_path: Path) -> Toolkit:
    for name, text in HEADERS.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    return Toolkit(
        root=tmp_path, nvcc=tmp_path / "nvcc", version="13.0.88", release="13.0", packages={}
    )


def compiler(text: str) -> Compiler:
    version = tuple(int(part) for part in text.split("."))
    return Compiler(gcc=Path("/gcc"), gxx=Path("/g++"), version=version, version_text=text)


@pytest.mark.parametrize("version", ["7.1.0", "12.2.0", "15.3.0", "15"])
def test_compilers_within_the_bounds_pass(version: str, toolkit: Toolkit) -> None:
    check_host_compiler(compiler(version), toolkit)


@pytest.mark.parametrize(("version", "word"), [("6.5.0", "old"), ("16.1.0", "new")])
def test_compilers_out_of_bounds_are_refused(version: str, word: str, toolkit: Toolkit) -> None:
    with pytest.raises(MachineLacks) as refused:
        check_host_compiler(compiler(version), toolkit)
    said = str(refused.value)
    assert f"GCC {version}, too {word} for nvcc 13.0.88, which takes GCC 7 to 15" in said
    assert "apt-get install g++-12, and make gcc and g++ point to it:" in said
    assert "update-alternatives --install /usr/bin/gcc gcc /usr/bin/gcc-12 100" in said


@pytest.mark.parametrize("header", HEADERS)
def test_a_header_without_its_bound_is_refused(header: str, toolkit: Toolkit) -> None:
    (toolkit.root / header).write_text("nothing\n")
    with pytest.raises(BadInput, match="no bound for GCC"):
        check_host_compiler(compiler("12.2.0"), toolkit)
    (toolkit.root / header).unlink()
    with pytest.raises(BadInput, match=f"bounds in .*{header}"):
        check_host_compiler(compiler("12.2.0"), toolkit)


@pytest.mark.parametrize(
    ("recipe", "version", "why"),
    [
        ("cpu-avx2", "8.5.0", "GCC 9 or newer, for std::filesystem"),
        ("cpu-any", "10.2.1", "GCC 11 or newer, for -mavxvnni"),
        ("a10g", "8.5.0", "GCC 9 or newer, for std::filesystem"),
    ],
)
def test_a_gcc_too_old_for_the_plan_is_refused(recipe: str, version: str, why: str) -> None:
    with pytest.raises(MachineLacks) as refused:
        check_gcc(compiler(version), plan_for(recipe))
    said = str(refused.value)
    assert f"/g++ is GCC {version}, too old: {recipe} needs {why}" in said
    assert "apt-get install g++-12" in said


@pytest.mark.parametrize(("recipe", "version"), [("cpu-avx2", "9.1.0"), ("cpu-any", "11.1.0")])
def test_a_gcc_new_enough_for_the_plan_passes(recipe: str, version: str) -> None:
    check_gcc(compiler(version), plan_for(recipe))


def test_a_machine_newer_than_the_host_is_refused() -> None:
    host = dataclasses.replace(plan_for("cpu-avx2").host, glibc="2.17")
    with pytest.raises(MachineLacks) as refused:
        check_runtime(host_compiler(), host)
    said = str(refused.value)
    assert "builds on this machine needs GLIBC_2." in said
    assert f"host {host.name} has GLIBC_2.17: build on a machine no newer" in said
    assert "Debian 12 or Ubuntu 22.04" in said
    with pytest.raises(MachineLacks, match=r"has GLIBC_2\.17 and GLIBCXX_3\.4\.9"):
        check_runtime(host_compiler(), dataclasses.replace(host, glibcxx="3.4.9"))


def test_the_plans_compiler_is_looked_at_quickly() -> None:
    began = time.monotonic()
    assert compiler_for(plan_for("cpu-any")).gxx == Path("/usr/bin/g++")
    assert time.monotonic() - began < 10  # 0.7 s on an idle machine


def test_a_compiler_without_its_library_is_refused(tmp_path: Path) -> None:
    broken = script(tmp_path / "g++", "echo no iostream >&2; exit 1\n")
    bad = dataclasses.replace(compiler("12.2.0"), gxx=broken)
    with pytest.raises(MachineLacks, match=r"apt-get install g\+\+\n(.|\n)*no iostream"):
        check_runtime(bad, plan_for("cpu-avx2").host)
