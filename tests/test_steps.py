"""What is read from `.ninja_log`, with logs as ninja 1.8 (v5) and 1.13 (v7) write them."""

import json
import subprocess
from pathlib import Path

import pytest

from hostwheel.build.steps import CompileStep, last_costs, read_steps
from tests.plans import need

CUDA = "llama.cpp/ggml/src/ggml-cuda/CMakeFiles/ggml-cuda.dir/template-instances/mmq-instance-q4_0"


def log(build: Path, *lines: str, version: int = 7) -> Path:
    build.mkdir(exist_ok=True)
    text = f"# ninja log v{version}\n" + "\n".join(lines) + "\n"
    (build / ".ninja_log").write_text(text)
    return build


def outputs(steps: tuple[CompileStep, ...]) -> list[tuple[str, int, int]]:
    return [(step.output, step.start_ms, step.end_ms) for step in steps]


@pytest.mark.parametrize("version", [5, 6, 7])
def test_steps_are_read_in_the_order_in_which_they_began(tmp_path: Path, version: int) -> None:
    lines = ("9\t80\t100\ta.c.o\taa", "4\t90\t100\tb.c.o\tbb")
    steps = read_steps(log(tmp_path, *lines, version=version))
    assert outputs(steps) == [("b.c.o", 4, 90), ("a.c.o", 9, 80)]
    assert steps[1].seconds == 0.071


def test_a_command_with_three_outputs_is_one_step(tmp_path: Path) -> None:
    lines = (f"1\t5\t100\t{name}\taa" for name in ("ui.cpp", "ui.h", "ui-assets"))
    assert len(read_steps(log(tmp_path, *lines))) == 1


def test_only_the_last_run_counts_wherever_its_lines_are(tmp_path: Path) -> None:
    lines = ("1\t5\t200\tnew.o\tbb", "0\t9\t100\told.o\taa", "3\t4\t201\tagain.o\tcc")
    build = log(tmp_path, "7\t8\t99\tagain.o\tcc", *lines)
    assert outputs(read_steps(build, since_ns=200)) == [("new.o", 1, 5), ("again.o", 3, 4)]
    assert len(read_steps(build)) == 3


def test_a_torn_line_or_no_log_is_no_error(tmp_path: Path) -> None:
    assert read_steps(tmp_path / "nowhere") == ()
    assert read_steps(log(tmp_path, "1\t5\t200\ta.o\taa", "6\t9\t2")) == (
        CompileStep(output="a.o", start_ms=1, end_ms=5),
    )


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        (f"{CUDA}.cu.o", "CUDA"),
        ("llama.cpp/src/CMakeFiles/llama.dir/Unity/unity_3_cxx.cxx.o", "C++"),
        ("llama.cpp/ggml/src/CMakeFiles/ggml-base.dir/ggml.cpp.o", "C++"),
        ("llama.cpp/ggml/src/CMakeFiles/ggml-base.dir/ggml.c.o", "C"),
        ("bin/libggml-base.so", "link"),
        ("bin/llama-server", "link"),
        ("llama.cpp/common/libllama-common-base.a", "link"),
        ("llama.cpp/tools/ui/CMakeFiles/llama-ui-assets", "other"),
        ("llama.cpp/tools/ui/ui.h", "other"),
    ],
)
def test_the_kind_is_seen_in_the_output(output: str, kind: str) -> None:
    assert CompileStep(output=output, start_ms=0, end_ms=1).kind == kind


def test_costs_are_from_the_build_folder_before_build_json(tmp_path: Path) -> None:
    evidence = tmp_path / "build.json"
    then = [{"output": name, "start_ms": 0, "end_ms": 7000} for name in ("a.o", "b.o")]
    evidence.write_text(json.dumps({"compile_steps": then}))
    build = log(tmp_path / "build", "0\t2000\t100\ta.o\taa")
    assert last_costs(build, evidence) == {"a.o": 2.0, "b.o": 7.0}
    assert last_costs(tmp_path, tmp_path / "none.json") == {}


def test_a_real_second_run_of_ninja_is_told_from_the_first(tmp_path: Path) -> None:
    ninja = need("ninja", "pip install ninja")
    rule = "rule copy\n  command = cp $in $out\n"
    (tmp_path / "build.ninja").write_text(f"{rule}build a.o: copy a\nbuild b.o: copy b\n")
    for name in ("a", "b", "since"):
        (tmp_path / name).touch()
    subprocess.run((ninja, "-C", str(tmp_path)), check=True)
    (tmp_path / "b").write_text("changed")
    (tmp_path / "since").touch()
    since_ns = (tmp_path / "since").stat().st_mtime_ns
    subprocess.run((ninja, "-C", str(tmp_path)), check=True)
    assert [step.output for step in read_steps(tmp_path, since_ns=since_ns)] == ["b.o"]
    subprocess.run((ninja, "-C", str(tmp_path), "-t", "recompact"), check=True)
    assert [step.output for step in read_steps(tmp_path, since_ns=since_ns)] == ["b.o"]
