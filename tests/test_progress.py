"""What people see of ninja's output, and the estimate of the time that is left."""

import os
import subprocess

import pytest
from rich.console import Console
from rich.progress import Progress

from hostwheel.build.progress import (
    FAILED_LINES,
    TAIL_LINES,
    Bar,
    Lines,
    Work,
    clock,
    compiling,
    watching,
)

# ninja 1.13 with two jobs, the second of which failed while the third was still running
SAID = """\
*** Building project with Ninja...
[1/3] Building CXX object src/CMakeFiles/llama.dir/llama.cpp.o
[2/3] Building CUDA object src/CMakeFiles/cuda.dir/fattn.cu.o
FAILED: [code=1] src/CMakeFiles/cuda.dir/fattn.cu.o
nvcc -c fattn.cu -o src/CMakeFiles/cuda.dir/fattn.cu.o
fattn.cu(7): error: identifier "nothing" is undefined
[3/3] Building C object src/CMakeFiles/llama.dir/ggml.c.o
ninja: build stopped: subcommand failed.
*** CMake build failed
"""
BLOCK = "".join(SAID.splitlines(keepends=True)[3:6])


def feed(watcher: Lines | Bar, said: str) -> None:
    for line in said.splitlines(keepends=True):
        watcher.show(line)


def bar(**costs: float) -> Bar:
    return Bar(progress=Progress(console=Console(quiet=True)), work=Work(costs=costs))


def test_plain_lines_keep_the_failed_step_for_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    feed(lines, SAID)
    assert capsys.readouterr().err == SAID.replace(BLOCK, "")
    assert lines.unseen() == BLOCK


def test_plain_lines_show_what_is_no_failed_step(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    feed(lines, "CMake Error at CMakeLists.txt:7:\n  GGML_CUDA\n")
    assert capsys.readouterr().err == "CMake Error at CMakeLists.txt:7:\n  GGML_CUDA\n"
    assert lines.unseen() == ""
    assert "CMake Error" in lines.failures.reason()


def test_the_bar_shows_the_failed_step_and_not_the_tail() -> None:
    watcher = bar()
    feed(watcher, SAID)
    assert watcher.unseen() == BLOCK


def test_without_a_failed_step_the_bar_shows_the_tail() -> None:
    watcher = bar()
    feed(watcher, "".join(f"line {number}\n" for number in range(100)))
    shown = watcher.unseen().splitlines()
    assert (shown[0], shown[-1], len(shown)) == ("line 60", "line 99", TAIL_LINES)


def test_a_long_error_is_cut_and_says_so() -> None:
    lines = Lines()
    feed(lines, "FAILED: a.o\n" + "note: required from here\n" * FAILED_LINES)
    assert lines.unseen().count("required from here") == FAILED_LINES - 1
    assert lines.unseen().endswith("… and 1 more lines in the log\n")


def test_the_bar_has_the_count_and_the_file() -> None:
    watcher = bar()
    feed(watcher, "* Building wheel...\n")
    assert watcher.progress.tasks[0].description == "Building wheel"
    feed(watcher, SAID.partition("ninja: build stopped")[0])
    assert watcher.progress.tasks[0].fields["count"] == "[3/3]"
    assert watcher.progress.tasks[0].description == "ggml.c.o"
    assert watcher.progress.tasks[0].finished


def test_progress_is_by_what_each_step_took_last_time() -> None:
    work = Work(costs={"small.o": 1, "big.o": 8, "link.so": 3})
    work.finished("small.o", 1, 3)
    assert work.seconds_left(elapsed=2) == 22
    work.finished("big.o", 2, 3)
    assert work.seconds_left(elapsed=18) == 6


def test_an_unknown_step_costs_what_is_typical() -> None:
    work = Work(costs={"a.o": 1, "b.o": 2, "c.o": 90})
    work.finished("new.o", 1, 5)
    assert (work.done, work.left) == (2, 1 + 2 + 90 + 2)


def test_a_build_of_a_part_expects_the_mean_of_what_it_may_be() -> None:
    work = Work(costs={"a.o": 1, "b.o": 2, "c.o": 4})
    work.finished("a.o", 1, 2)
    assert (work.done, work.left) == (1, 3)


def test_without_an_earlier_build_all_steps_are_equal() -> None:
    work = Work(costs={})
    work.finished("a.o", 1, 4)
    assert work.seconds_left(elapsed=5) == 15


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0:00"), (59.6, "1:00"), (754, "12:34"), (7325, "2:02:05")]
)
def test_times_are_short(seconds: float, said: str) -> None:
    assert clock(seconds) == said


def test_without_a_terminal_there_are_plain_lines() -> None:
    with watching({}) as watcher:
        assert isinstance(watcher, Lines)


def test_the_files_that_are_being_compiled_are_seen() -> None:
    script = "echo; read nothing"
    pipe = subprocess.PIPE
    argv = ("sh", "-c", script, "sccache", "-o", "src/cuda.dir/fattn.cu.o", "-c")
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert compiling(os.getpid()) == {"fattn.cu"}
        process.communicate()
    assert compiling(os.getpid()) == set()
