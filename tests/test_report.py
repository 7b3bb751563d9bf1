"""report.html: one file that stands alone, with every step in it."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from hostwheel.build.report import MOST, chart, lanes, report, write_report
from hostwheel.build.steps import CompileStep
from hostwheel.errors import BadInput
from hostwheel.plan.plan import plain
from tests.plans import ROOT

STEPS = tuple(
    CompileStep(output=output, start_ms=start, end_ms=end)
    for output, start, end in (
        ("CMakeFiles/cuda.dir/fattn<1>.cu.o", 0, 60_000),
        ("CMakeFiles/ggml.dir/ggml.cpp.o", 0, 20_000),
        ("CMakeFiles/ggml.dir/ggml.c.o", 20_000, 30_000),
        ("bin/libggml.so", 60_000, 70_000),
    )
)


def evidence(steps: tuple[CompileStep, ...]) -> dict[str, Any]:
    return {
        "recipe": "a10g",
        "plan": {"wheel": "llama_cpp_python-1+cu130.whl"},
        "compiler_cache": {"compilations": 3, "hits": 1, "misses": 2},
        "steps": [{"name": "compile", "wall": 71.2, "cpu": 130.4}],
        "compile_steps": [plain(step) for step in steps],
    }


def test_each_step_is_in_the_first_lane_that_is_free() -> None:
    assert [(lane, step.kind) for lane, step in lanes(STEPS)] == [
        (0, "C++"),
        (1, "CUDA"),
        (0, "C"),
        (0, "link"),
    ]


def test_no_two_steps_of_a_lane_overlap() -> None:
    many = tuple(
        CompileStep(output=f"{n}.o", start_ms=n, end_ms=n + 1 + n * 7 % 11) for n in range(200)
    )
    ends: dict[int, int] = {}
    for lane, step in lanes(many):
        assert ends.get(lane, 0) <= step.start_ms
        ends[lane] = step.end_ms
    at_once = max(sum(a.start_ms <= t < a.end_ms for a in many) for t in range(220))
    assert len(ends) == at_once


def test_the_chart_is_well_formed_and_every_bar_can_be_reached_and_says_what_it_is() -> None:
    bars = ET.fromstring(chart(STEPS)).findall("g")
    assert [bar.get("tabindex") for bar in bars] == ["0"] * len(STEPS)
    assert [bar.findtext("title") for bar in bars] == [
        "ggml.cpp: 20.0 s, C++, at 0:00",
        "fattn<1>.cu: 60.0 s, CUDA, at 0:00",
        "ggml.c: 10.0 s, C, at 0:20",
        "libggml.so: 10.0 s, link, at 1:00",
    ]


def test_a_bar_is_as_long_as_its_step() -> None:
    rect = ET.fromstring(chart(STEPS)).findall("g/rect")[1]
    assert (rect.get("x"), rect.get("width"), rect.get("class")) == ("0.000%", "85.714%", "cuda")


def test_the_page_loads_nothing_from_elsewhere_and_knows_dark() -> None:
    page = report(evidence(STEPS))
    for outside in ("http", "src=", "url(", "@import", "<script"):
        assert outside not in page
    assert "prefers-color-scheme: dark" in page
    assert "width=device-width" in page


def test_totals_are_by_kind_with_their_share() -> None:
    page = report(evidence(STEPS))
    assert "CUDA</td><td>1</td><td>1:00</td><td>60.0%</td>" in page
    assert "C++</td><td>1</td><td>0:20</td><td>20.0%</td>" in page
    assert "<td>compile</td><td>1:11</td><td>2:10</td>" in page


def test_the_table_has_the_dearest_twenty_first_the_dearest() -> None:
    many = tuple(CompileStep(output=f"{n}.c.o", start_ms=0, end_ms=n * 1000) for n in range(30))
    page = report(evidence(many)).partition("most expensive")[2]
    assert page.count("<td><span") == MOST
    assert page.index('title="29.c.o"') < page.index('title="28.c.o"')
    assert "9.c.o" not in page.replace("29.c.o", "").replace("19.c.o", "")


def test_a_build_that_compiled_nothing_says_so() -> None:
    assert "The last build compiled nothing." in report(evidence(()))


def test_without_a_build_the_command_says_what_to_do(tmp_path: Path) -> None:
    argv = (sys.executable, "-m", "hostwheel", "build", "a10g", "--report", "--out", str(tmp_path))
    done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2
    wanted = f"hostwheel: no {tmp_path}/a10g/build.json: build a10g first, without --report\n"
    assert done.stderr == wanted
    (tmp_path / "a10g").mkdir()
    (tmp_path / "a10g" / "build.json").write_text(json.dumps(evidence(STEPS)))
    done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == f"{tmp_path}/a10g/report.html\n"
    assert "fattn&lt;1&gt;.cu" in (tmp_path / "a10g" / "report.html").read_text()


def test_something_else_named_build_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "build.json").write_text('{"recipe": "a10g"}')
    with pytest.raises(BadInput, match=r"build\.json is not what hostwheel build writes"):
        write_report(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        *("[]", "{", "null", "[" * 100_000, '"\\ud800"', '{"compile_steps": [{}]}', "\udcff"),
        json.dumps(evidence(STEPS) | {"recipe": None}),
        json.dumps(evidence(STEPS) | {"recipe": "\ud800"}),
        json.dumps(evidence(STEPS) | {"steps": [{"name": "x", "wall": float("inf"), "cpu": 1}]}),
    ],
    ids=range(10),
)
def test_a_damaged_build_json_says_to_build_first(text: str, tmp_path: Path) -> None:
    (tmp_path / "build.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(BadInput, match=r"is not what .* build .* first, without --report"):
        write_report(tmp_path)


def test_a_folder_named_build_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "build.json").mkdir()
    with pytest.raises(BadInput, match=r"build\.json: cannot be read: it is a folder.* first"):
        write_report(tmp_path)
