"""The installed wheel computes what it should: its logits against a pass in numpy.

Every type of weights, with every shape of batch and every KV cache; natively, and on the CPU model
of the host. What is allowed, and why, stands in smoke/bounds.py.
"""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from smoke.bounds import PROMPT, ROUNDING, Answer, Row, Setting, Task, ask, faults
from smoke.installed import Installed
from smoke.reference import Weights, last_logits, load
from smoke.spoiled import lend_cuda, shift_by_five

Tiny = Callable[[str], Path]

BATCHES = (1, 7, 32, 512)
CACHES = {"F32": False, "F16": True, "Q8_0": True}  # with FlashAttention?
MANY = 3  # no number of rows divides by it
SETTINGS = (
    *(Setting(batch=b, kv=c, flash=f) for b in BATCHES for c, f in CACHES.items()),
    *(Setting(batch=512, kv=c, flash=f, threads=MANY) for c, f in CACHES.items()),
)
# Under an emulator, where a multiplication costs two hundred: two chunks, the second one smaller.
SHORT = PROMPT[:9]
CHUNKED = Setting(batch=7, kv="F32", flash=False)
SHORT_SETTINGS = {"Q8_0": (CHUNKED, Setting(batch=7, kv="Q8_0"))}
REPACKED_WITH = {"Q4_0": "avx2", "Q4_K": "avx2"}  # what ggml_repack_get_optimal_repack_type asks
REPACKED = "CPU_REPACK model buffer size"


@pytest.fixture(scope="module", params=ROUNDING)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def weights(kind: str, tiny: Tiny) -> Weights:
    return load(tiny(kind))


@pytest.fixture(scope="module")
def exact(weights: Weights) -> Row:
    return last_logits(weights, PROMPT)


@pytest.mark.parametrize("repacked", [True, False], ids=["repacked", "plain"])
def test_logits(
    repacked: bool,
    kind: str,
    exact: Row,
    tiny: Tiny,
    plan: Mapping[str, Any],
    installed: Installed,
    tmp_path: Path,
) -> None:
    task = Task(kind=kind, repacked=repacked, model=tiny(kind), tokens=PROMPT, settings=SETTINGS)
    answer = ask(installed, tmp_path, [task])
    assert list(faults(task, answer, exact)) == []
    if not repacked:
        assert REPACKED not in answer.said
    elif REPACKED_WITH.get(kind) in plan["features"]:
        assert REPACKED in answer.said


def test_a_q8_0_cache_without_flash_attention_is_refused(
    tiny: Tiny, installed: Installed, tmp_path: Path
) -> None:
    settings = (
        Setting(batch=512, kv="Q8_0", flash=False),
        Setting(batch=512, kv="Q8_0", flash=True),
    )
    task = Task(kind="Q8_0", repacked=True, model=tiny("Q8_0"), tokens=SHORT, settings=settings)
    answer = ask(installed, tmp_path, [task])
    assert set(answer.rows) == {task.name(settings[1])}
    assert "quantized V cache requires flash_attn" in answer.said


@pytest.fixture(scope="module")
def emulated_tasks(tiny: Tiny) -> Mapping[tuple[str, bool], Task]:
    return {
        (kind, repacked): Task(
            kind=kind,
            repacked=repacked,
            model=tiny(kind),
            tokens=SHORT,
            settings=SHORT_SETTINGS.get(kind, (CHUNKED,)),
        )
        for kind in ROUNDING
        for repacked in ((False, True) if kind in REPACKED_WITH else (False,))
    }


@pytest.fixture(scope="module")
def emulated_answer(
    emulated: tuple[str, ...],
    emulated_tasks: Mapping[tuple[str, bool], Task],
    installed: Installed,
    tmp_path_factory: pytest.TempPathFactory,
) -> Answer:
    """One process for all, since starting it costs more than computing."""
    folder = tmp_path_factory.mktemp("emulated")
    return ask(installed, folder, [*emulated_tasks.values()], wrap=emulated)


def test_logits_on_the_hosts_cpu_model(
    kind: str,
    weights: Weights,
    emulated_answer: Answer,
    emulated_tasks: Mapping[tuple[str, bool], Task],
) -> None:
    exact = last_logits(weights, SHORT)
    tasks = [task for task in emulated_tasks.values() if task.kind == kind]
    assert tasks
    assert [fault for task in tasks for fault in faults(task, emulated_answer, exact)] == []


def test_a_kernel_wrong_in_one_quantization_is_caught(
    tiny: Tiny, installed: Installed, tmp_path: Path
) -> None:
    """A copy of the libraries computes the same; with one shift off by one, Q4_K alone is wrong."""
    lend_cuda(installed.package, tmp_path)
    copied = Path(shutil.copytree(installed.package / "lib", tmp_path / "llama_cpp" / "lib"))
    tasks = [
        Task(
            kind=kind,
            repacked=False,
            model=tiny(kind),
            tokens=SHORT,
            settings=[CHUNKED],
        )
        for kind in ("Q4_K", "Q5_K")
    ]

    def wrong() -> list[str]:
        answer = ask(installed, tmp_path, tasks, env={"LLAMA_CPP_LIB_PATH": str(copied)})
        exact = [last_logits(load(task.model), SHORT) for task in tasks]
        found = zip(tasks, exact, strict=True)
        return [task.kind for task, row in found if list(faults(task, answer, row))]

    assert wrong() == []
    shift_by_five(copied, "ggml_vec_dot_q4_K_q8_K")
    assert wrong() == ["Q4_K"]
