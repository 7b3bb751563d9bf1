"""A stand-in build, an index of stand-in packages, and what a target machine does with a bundle."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

from hostwheel.__main__ import main
from hostwheel.artifact.smoked import count_by_file
from hostwheel.publish.catalog import Catalog, Entry, Needs, object_key
from tests.proved import GROUPS_PASSED

VERSION = "0.3.36+cpu.avx2"
OURS = f"llama_cpp_python-{VERSION}-py3-none-manylinux_2_28_x86_64.whl"
PYTHON = "{}.{}".format(*sys.version_info[:2])
TAG = f"cp{PYTHON.replace('.', '')}"
OTHER_PYTHONS = ("3.8", "3.13")
UV = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # has our uv
WEIRD = "Übung mit Leer zeichen"
CUDA = {"release": "13.0", "architecture": "86", "driver": "580.65.06"}
HOST = """\
title = "A test's host"
[cpu]
microarchitecture = "zen2"
features = [{features}]
[os]
glibc = "{glibc}"
glibcxx = "3.4.30"
"""
AVX2 = '"sse3", "ssse3", "sse4_1", "sse4_2", "popcnt", "avx", "avx2", "fma"'
GPU = '[gpu]\nname = "NVIDIA A10G"\ncompute = "{compute}"\ndriver = "580.65.06"\n'
FEATURES = ("avx2", "fma")

TOOL = b"[console_scripts]\ntool=standin_tool:main\n"
BINDING = """\
import ctypes, pathlib
import standin_words

__version__ = "{version}"
for library in pathlib.Path(__file__).parent.glob("lib/*.so"):
    ctypes.CDLL(str(library))

class Llama:
    def __init__(self, model_path, **options):
        with open(model_path, "rb") as file:
            assert file.read(4) == b"GGUF"

    def __call__(self, prompt, max_tokens, temperature):
        return dict(choices=[dict(text=standin_words.WORD)], usage=dict(completion_tokens=1))
"""
SERVER = """\
#include <stdio.h>
int main(int argc, char **argv) {
    printf("version: stand-in\\n");
    for (int i = 1; i < argc; i++) printf("<%s>\\n", argv[i]);
    return 0;
}
"""


def compiled(folder: Path, name: str, source: str, *flags: str) -> bytes:
    """The bytes of a program, or of a library, that gcc makes of C."""
    (folder / f"{name}.c").write_text(source)
    target = folder / name
    argv = ("gcc", "-O1", str(folder / f"{name}.c"), "-o", str(target), *flags)
    subprocess.run(argv, check=True)
    return target.read_bytes()


def wheel(folder: Path, filename: str, files: Mapping[str, bytes], *requires: str) -> Path:
    """A whole wheel of this name, RECORD included. Files that are ELF are executable."""
    name, version, *_, tag = filename.removesuffix(".whl").split("-", 2)
    info = f"{name}-{version}.dist-info"
    asks = "".join(f"Requires-Dist: {each}\n" for each in requires)
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{asks}"
    kind = f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: {tag}\n"
    every = {**files, f"{info}/METADATA": about.encode(), f"{info}/WHEEL": kind.encode()}
    record = "".join(f"{each},{recorded(data)},{len(data)}\n" for each, data in every.items())
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / filename, "w") as archive:
        for each, data in {
            **every,
            f"{info}/RECORD": f"{record}{info}/RECORD,,\n".encode(),
        }.items():
            member = zipfile.ZipInfo(each, (2026, 1, 1, 0, 0, 0))
            member.external_attr = (0o100755 if data.startswith(b"\x7fELF") else 0o100644) << 16
            archive.writestr(member, data)
    return folder / filename


def recorded(data: bytes) -> str:
    digest = hashlib.sha256(data).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def pip_wheel(folder: Path) -> Path:
    """The pip that is installed here, as the wheel that it came from."""
    pip = metadata.distribution("pip")
    names = [str(each) for each in pip.files or () if each.suffix == ".py"]
    files = {name: Path(str(pip.locate_file(name))).read_bytes() for name in names}
    data = {name: text for name, text in files.items() if not name.startswith("..")}
    certificates = Path(str(pip.locate_file("pip/_vendor/certifi/cacert.pem")))
    data["pip/_vendor/certifi/cacert.pem"] = certificates.read_bytes()
    return wheel(folder, f"pip-{pip.version}-py3-none-any.whl", data)


def index(folder: Path) -> Path:
    """Packages for three Pythons; version 2.0 needs a glibc that no host of the tests has."""
    for python in {PYTHON, *OTHER_PYTHONS}:
        tag = f"cp{python.replace('.', '')}"
        word = f"WORD = 'hello from {python}'\n".encode()
        for version, platform in (("1.0", "manylinux_2_17"), ("2.0", "manylinux_2_40")):
            filename = f"standin_words-{version}-{tag}-{tag}-{platform}_x86_64.whl"
            wheel(folder, filename, {"standin_words.py": word})
    wheel(folder, "standin_old-1.0-py3-none-any.whl", {"standin_old.py": b""})
    script = {
        "standin_tool.py": b"def main():\n    print('the tool')\n",
        "standin_tool-1.0.dist-info/entry_points.txt": TOOL,
    }
    wheel(folder, "standin_tool-1.0-py3-none-any.whl", script, "standin-words")
    pip_wheel(folder)
    return folder


def our_wheel(
    folder: Path,
    *requires: str,
    extra: Mapping[str, bytes] | None = None,
    words: bool = True,
    glibc: str = "2_28",
    version: str = VERSION,
) -> Path:
    """The stand-in, which needs the index's packages unless `words` is false."""
    folder.mkdir(parents=True, exist_ok=True)
    binding = BINDING if words else BINDING.replace("import standin_words\n", "")
    files = {
        "llama_cpp/__init__.py": binding.replace("{version}", version).encode(),
        "llama_cpp/lib/llama-server": compiled(folder, "llama-server", SERVER),
        **(extra or {}),
    }
    theirs = ("standin-words>=1", 'standin-old; python_version < "3.9"') if words else ()
    return wheel(
        folder, OURS.replace("2_28", glibc).replace(VERSION, version), files, *theirs, *requires
    )


def library(folder: Path, soname: str, *needs: str) -> bytes:
    """A shared library that asks for others, which lie in `folder` already; cuBLAS names NVRTC."""
    opens = "libnvrtc.so.13" if "cublas." in soname else ""
    source = f'const char name[] = "{soname}", opens[] = "{opens}";\n'
    runpath = "-Wl,-rpath,$ORIGIN:$ORIGIN/../../nvidia/cu13/lib"
    flags = ("-shared", "-fPIC", f"-Wl,-soname,{soname}", "-Wl,--no-as-needed", runpath)
    return compiled(folder, soname, source, *flags, *(str(folder / each) for each in needs))


def cuda_wheel(folder: Path, packages: Path) -> Path:
    """Our wheel with a CUDA backend; cudart, cuBLAS and NVRTC, as NVIDIA packs them, beside."""
    folder.mkdir(parents=True)
    for name, requires, sonames in (
        ("nvidia_cuda_runtime", (), (("libcudart.so.13",),)),
        ("nvidia_cuda_nvrtc", (), (("libnvrtc.so.13",),)),
        (
            "nvidia_cublas",
            ("nvidia-cuda-nvrtc",),
            (("libcublasLt.so.13",), ("libcublas.so.13", "libcublasLt.so.13")),
        ),
    ):
        lib = {f"nvidia/cu13/lib/{each[0]}": library(folder, *each) for each in sonames}
        licence = {f"{name}-13.1.dist-info/licenses/License.txt": f"terms of {name}\n".encode()}
        filename = f"{name}-13.1-py3-none-manylinux_2_17_x86_64.whl"
        wheel(packages, filename, {**lib, **licence}, *requires)
    ggml = library(folder, "libggml-cuda.so", "libcudart.so.13", "libcublas.so.13")
    asks = ("nvidia-cuda-runtime>=13,<14", "nvidia-cublas>=13,<14")
    return our_wheel(folder, *asks, extra={"llama_cpp/lib/libggml-cuda.so": ggml})


def build(folder: Path, made: Path, features: Sequence[str] = FEATURES, **plan: object) -> Path:
    """out/RECIPE as a build leaves it, with the wheel `made`."""
    (folder / "dist").mkdir(parents=True)
    shutil.copy(made, folder / "dist" / made.name)
    digest = hashlib.sha256(made.read_bytes()).hexdigest()
    content = {
        "recipe": "cpu-avx2",
        "version": VERSION,
        "wheel": made.name,
        "features": list(features),
        "cuda": None,
        "host": {"title": "a test's host", "glibc": "2.35", "glibcxx": "3.4.22"},
        **plan,
    }
    evidence = {"plan": content, "artifacts": [{"name": made.name, "sha256": digest}]}
    (folder / "build.json").write_text(json.dumps(evidence))
    report = {"artifact": made.name, "sha256": digest, "verdict": "fits"}
    (folder / "audit.json").write_text(json.dumps({"reports": [report]}))
    (folder / "audit.html").write_text("<p>fits</p>")
    files = count_by_file(str(check["id"]) for check in GROUPS_PASSED)
    suite = {"suite": {"files": files}, "checks": GROUPS_PASSED}
    smoke = {"passed": True, "artifacts": {made.name: digest}, **suite}
    (folder / "smoke.json").write_text(json.dumps(smoke))
    return folder


def gguf(path: Path) -> Path:
    path.write_bytes(b"GGUF" + bytes(range(256)))
    return path


def bundled(*arguments: str | Path) -> int:
    """`hostwheel bundle`: its exit status."""
    return main(["bundle", *map(str, arguments)])


def unpacked(archive: Path, folder: Path) -> Path:
    """As `unzip` does it, with the modes."""
    with zipfile.ZipFile(archive) as content:
        assert content.testzip() is None
        for info in content.infolist():
            Path(content.extract(info, folder)).chmod(info.external_attr >> 16)
    return folder


def install(bundle: Path, *arguments: str | Path, **environment: str) -> "Run":
    """Start install.py with this Python, without a network, in a poisoned environment."""
    argv = ("unshare", "-rn", sys.executable, str(bundle / "install.py"), *map(str, arguments))
    return run(argv, **environment)


POISON = {
    "PIP_INDEX_URL": "http://127.0.0.1:1/simple",
    "PIP_REQUIRE_VIRTUALENV": "1",
    "PIP_TARGET": "/nowhere",
    "PIP_CONSTRAINT": "/nowhere",
    "UV_INDEX_URL": "http://127.0.0.1:1/simple",
    "PYTHONPATH": "/nowhere",
}
Run = subprocess.CompletedProcess[str]


def run(argv: Sequence[str | Path], **environment: str) -> Run:
    env = {**os.environ, **POISON, **environment}
    return subprocess.run([*map(str, argv)], env=env, capture_output=True, text=True, timeout=120)


def files_below(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        yield str(path.relative_to(folder))


def names(archive: Path) -> list[str]:
    with zipfile.ZipFile(archive) as content:
        return content.namelist()


def read(archive: Path, name: str) -> str:
    with zipfile.ZipFile(archive) as content:
        return content.read(name).decode()


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def host_file(folder: Path, features: str = AVX2, glibc: str = "2.35", more: str = "") -> Path:
    file = folder / "my-host.toml"
    file.write_text(HOST.format(features=features, glibc=glibc) + more)
    return file


def refused(done: subprocess.CompletedProcess[str], code: int, words: str, folder: Path) -> None:
    """One sentence, its status, and nothing installed in `folder`."""
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stderr.startswith("install.py: ")
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert left(folder) == ["bundle"]


def entry(made: Path, **changes: Any) -> Entry:
    data = made.read_bytes()
    needs = Needs(
        features=FEATURES, cuda=None, architecture=None, driver=None, glibc="2.28", glibcxx="3.4.22"
    )
    usual = Entry(
        kind="wheel",
        recipe="cpu-avx2",
        title="a test's host",
        filename=made.name,
        sha256=hashlib.sha256(data).hexdigest(),
        size=len(data),
        uploaded="2026-11-30T00:00:00Z",
        version="0.3.36+cpu.avx2",
        platform_tag="manylinux_2_28_x86_64",
        requires_python=">=3.8",
        requires=(),
        metadata="0" * 64,
        needs=needs,
        evidence={},
    )
    return replace(usual, **changes)


def bucket(folder: Path, entries: Mapping[Path, Entry]) -> Path:
    for made, each in entries.items():
        place = folder / object_key(each.sha256, each.filename)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(made, place)
    (folder / "catalog.json").write_text(Catalog().next(entries.values()).json())
    return folder
