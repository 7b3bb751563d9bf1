from pathlib import Path

import pytest

from hostwheel.artifact.layout import Region
from hostwheel.artifact.paths import build_paths, folders


def told(content: bytes) -> set[str]:
    return set(folders(content, 0, len(content)))


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("/home/runner/work/llama.cpp/ggml/src/ggml.c", "/home/runner/work/llama.cpp/ggml/src"),
        ("/root/x/ggml.cu", "/root/x"),
        ("/tmp/llama-cpp-src/ggml/src/ggml.cpp", "/tmp/llama-cpp-src/ggml/src"),
        ("/var/tmp/hostwheel/a/src/a.cpp", "/var/tmp/hostwheel/a/src"),
        ("/Users/ann/dev/x.mm", "/Users/ann/dev"),
        ("/build/x/y.h", "/build/x"),
        ("-I/home/ann/include/x.hpp", "/home/ann/include"),
        ("D:\\a\\llama.cpp\\build\\x.pdb", "D:\\a\\llama.cpp\\build"),
        ("/home/ann/llama.cpp/build/bin", "/home/ann/llama.cpp/build/bin"),
        ("--prefix=/root/prefix/lib", "/root/prefix/lib"),
    ],
)
def test_a_build_machines_folder_is_told(text: str, folder: str) -> None:
    assert told(b"\0before\0" + text.encode() + b"\0after\0") == {folder}


@pytest.mark.parametrize(
    "text",
    [
        *("/tmp/%s.XXXXXX", "/tmp/x.sock", "/tmp/", "/home/%s/src/x.c", "/home", "/root/.cache/x"),
        *("/usr/src/debug/x.c", "/usr/lib/libx.so", "https://example.org/home/ann/x.c"),
        *("ggml/src/ggml.c", "../build/x.c", "C:\\Windows\\System32\\x.dll", "/proc/self/x"),
        *("/var/tmp/x.json", "a:\\b", "${prefix}/build/src/x.c", "/home/ann/models/x.gguf"),
    ],
)
def test_what_a_program_uses_is_left_alone(text: str) -> None:
    assert told(b"\0" + text.encode() + b"\0") == set()


def test_each_folder_once_and_of_many_the_first(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"/root/a/x.c\0/root/a/y.c\0/root/b/x.c\0")
    assert build_paths(file) == ("/root/a", "/root/b")
    file.write_bytes(b"".join(b"/root/%d/x.c\0" % number for number in range(500)))
    assert len(build_paths(file)) == 64
    file.write_bytes(b"")
    assert build_paths(file) == ()


def test_code_is_not_searched(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"/root/a/x.c\0/root/b/x.c\0/root/c/x.c\0")
    assert build_paths(file, [Region(address=0, offset=12, size=12)]) == ("/root/a", "/root/c")
