"""An older wheel of llama-cpp-python, to be upgraded."""

import zipfile
from pathlib import Path

LEFTOVER = "llama_cpp/only_in_the_stub.py"


def write_stub(folder: Path, version: str) -> Path:
    """A wheel of this version, without label, whose package cannot be imported."""
    info = f"llama_cpp_python-{version}.dist-info"
    files = {
        "llama_cpp/__init__.py": 'raise ImportError("this is the stub")\n',
        LEFTOVER: "",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: llama_cpp_python\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    wheel = folder / f"llama_cpp_python-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return wheel
