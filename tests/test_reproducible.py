"""Two builds of one plan are compared byte by byte, and the first difference is shown."""

import subprocess
import time
import zipfile
from pathlib import Path

import pytest

from hostwheel.build.reproducible import compare, in_sections
from hostwheel.errors import Refused

CLOCK = 'const char * built(void) { return "built at " __TIME__; }\n'


def wheel(path: Path, members: dict[str, bytes], when: int = 2000) -> Path:
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, (when, 1, 1, 0, 0, 0)), content)
    return path


def refusal(tmp_path: Path, one: dict[str, bytes], two: dict[str, bytes], when: int = 2000) -> str:
    first = wheel(tmp_path / "one" / "x.whl", one)
    with pytest.raises(Refused) as caught:
        compare(first, wheel(tmp_path / "two" / "x.whl", two, when))
    return str(caught.value)


def compiled(folder: Path, source: str) -> bytes:
    folder.mkdir(exist_ok=True)
    (folder / "x.c").write_text(source)
    argv = ("gcc", "-shared", "-fPIC", "-o", "x.so", "x.c")
    subprocess.run(argv, cwd=folder, check=True, env={"PATH": "/usr/bin:/bin"})
    return (folder / "x.so").read_bytes()


def test_equal_wheels_pass(tmp_path: Path) -> None:
    members = {"a.py": b"same"}
    first = wheel(tmp_path / "one" / "x.whl", members)
    compare(first, wheel(tmp_path / "two" / "x.whl", members))


def test_a_planted_time_is_found_with_file_section_and_bytes(tmp_path: Path) -> None:
    one = compiled(tmp_path / "c", CLOCK)
    time.sleep(1.1)
    two = compiled(tmp_path / "c", CLOCK)
    said = refusal(tmp_path, {"lib/x.so": one}, {"lib/x.so": two})
    assert "first in x.whl: lib/x.so: section .rodata, at byte " in said


def test_code_of_another_size_is_named_by_its_section(tmp_path: Path) -> None:
    one = compiled(tmp_path / "c", "int f(int x) { return x; }\n")
    two = compiled(tmp_path / "c", "int f(int x) { return x * x * 7 + 3; }\n")
    said = refusal(tmp_path, {"lib/x.so": one}, {"lib/x.so": two})
    assert "lib/x.so: section .text, of " in said
    assert " bytes, at byte " in said


def test_a_section_that_only_one_has_is_named() -> None:
    said = in_sections([(".text", b"1"), (".data", b"")], [(".text", b"1"), (".planted", b"")])
    assert said == "section .data in the one, .planted in the other"


def test_a_missing_member_is_named(tmp_path: Path) -> None:
    said = refusal(tmp_path, {"a.py": b"1", "b.py": b"2"}, {"a.py": b"1"})
    assert "the members: b.py" in said


def test_another_order_of_members_is_named(tmp_path: Path) -> None:
    said = refusal(tmp_path, {"a.py": b"1", "b.py": b"2"}, {"b.py": b"2", "a.py": b"1"})
    assert "another order" in said


def test_other_times_in_the_zip_are_named(tmp_path: Path) -> None:
    said = refusal(tmp_path, {"a.py": b"1"}, {"a.py": b"1"}, when=2001)
    assert "the zip file's own fields" in said


def test_the_first_differing_byte_is_exact(tmp_path: Path) -> None:
    said = refusal(tmp_path, {"a.py": b"abcdef"}, {"a.py": b"abcdXf"})
    assert "a.py: at byte 4: b'ef' and b'Xf'" in said
