"""`hostwheel parity`: its arithmetic, its report and its refusals, with two made-up engines."""

import io
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

from hostwheel.__main__ import main
from hostwheel.errors import BadInput, MachineLacks, Refused
from hostwheel.readout import parity_files, parity_reference, parity_report, parity_run
from hostwheel.readout.agreement import TokenMismatchError
from hostwheel.readout.parity import agreement
from hostwheel.readout.parity_files import Gguf, Source, find_source, read_gguf
from hostwheel.readout.parity_report import as_json, show
from hostwheel.readout.parity_run import (
    SETTINGS,
    Request,
    check_agreement,
    label_token,
    parity,
)
from hostwheel.readout.questions import QUESTIONS, choice, score, yes_no

Row = NDArray[np.float64]
N_VOCAB = 128  # ASCII: a token is a character, except for the words of yes and no
WORDS = {"Yes": 1, "No": 2}


class Tokenizer:
    """Both engines' tokenizer."""

    chat_template: str | None = "made up"
    bos_token = "\x03"

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        ids = [WORDS[text]] if text in WORDS else [ord(letter) % N_VOCAB for letter in text]
        return [3, *ids] if add_special_tokens else ids

    def decode(self, ids: Any) -> str:
        named = {number: word for word, number in WORDS.items()}
        return "".join(named.get(token, chr(token)) for token in np.atleast_1d(ids))

    def apply_chat_template(self, messages: Any, **how: bool) -> str:
        assert how == {"tokenize": False, "add_generation_prompt": True}
        return f"<{messages[0]['content']}>"


def row(tokens: Sequence[int], *, by: float = 0.0) -> Row:
    """A distribution that depends on the tokens; at token 65 (A) another engine is `by` away."""
    logits = np.random.default_rng(list(tokens)).normal(size=N_VOCAB)
    logits[66] += 9  # B is the likeliest
    made = np.asarray(logits - np.log(np.exp(logits).sum()))
    made[65] += by
    return made


class Backend:
    """Stands for llama.cpp, which is worse with an F16 cache."""

    def __init__(self, path: Path, *, tokenizer: Any, n_ctx: int, **options: Any) -> None:
        self.gguf_tokenizer = Tokenizer()
        self.by = 0.25 if options["type_k"] else 0.0001220703125

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def next_token_logprobs(self, prompts: Sequence[str], ids: Sequence[Any]) -> list[Row]:
        return [np.zeros(len(each)) for each in ids]

    def next_token_distributions(self, prompts: Sequence[str]) -> list[Row]:
        encoded = (self.gguf_tokenizer.encode(text, add_special_tokens=False) for text in prompts)
        return [row(tokens, by=self.by) for tokens in encoded]


class Reference:
    """Stands for transformers."""

    def __init__(self, source: Source) -> None:
        self.tokenizer = Tokenizer()

    def rows(self, prompts: Sequence[Sequence[int]]) -> Iterator[Row]:
        yield from map(row, prompts)


@pytest.fixture
def request_(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Request:
    """One of two GGUF files and a model folder, before two engines that are made up."""
    for name, stand_in in {
        "LlamaCppBackend": Backend,
        "Reference": Reference,
        "read_gguf": lambda path: Gguf(path=path, parameters=1, weights=path.stem),
        "check_packages": lambda: None,
        "check_memory": lambda source, parameters: None,
    }.items():
        monkeypatch.setattr(parity_run, name, stand_in)
    monkeypatch.setattr(parity_report, "versions", lambda: {"torch": "1"})
    model = tmp_path / "secret" / "model"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    return Request(ggufs=(model / "F32.gguf", model / "Q8_0.gguf"), model=model)


# The arithmetic


def test_differences_are_over_all_and_over_the_labels() -> None:
    ours = [np.array([-1.0, -2.0, -4.0]), np.array([-3.0, -1.0, -2.0])]
    theirs = [np.array([-1.0, -2.5, -4.0]), np.array([-3.0, -1.0, -0.5])]
    found = agreement([[0, 1], [0]], ours, theirs)
    assert found.argmax == 1
    assert found.vocabulary.largest == 1.5
    assert found.vocabulary.mean == pytest.approx(2 / 6)
    assert found.labels.largest == 0.5
    assert found.labels.mean == pytest.approx(0.5 / 3)
    assert found.by_prompt == (0.5, 1.5)


def test_a_token_that_neither_can_give_is_no_difference() -> None:
    ours, theirs = np.array([0.0, -np.inf, -np.inf]), np.array([0.0, -np.inf, -9.0])
    assert agreement([[0, 1]], [ours], [theirs]).labels.largest == 0
    assert agreement([[0, 1]], [ours], [theirs]).vocabulary.largest == math.inf


def test_a_missing_row_is_an_error() -> None:
    with pytest.raises(ValueError, match="shorter"):
        agreement([[0]], [row([1])], [])


# The questions


def test_there_are_fifteen_questions_of_three_kinds() -> None:
    kinds = [question.kind for question in QUESTIONS]
    assert {kind: kinds.count(kind) for kind in kinds} == {"choice": 5, "yes-no": 5, "score": 5}
    assert len({question.message for question in QUESTIONS}) == 15


def test_labels_and_what_they_stand_for() -> None:
    assert choice("Which?", "a", "b").message == "Which?\nA. a\nB. b\nAnswer with the letter only."
    assert yes_no("Is it?").message == "Is it?\nAnswer with Yes or No only."
    assert score("How?", "low", "high").labels == ("1", "2")


# The comparison and what is said of it


def test_each_file_is_compared_with_each_setting(request_: Request) -> None:
    report = parity(request_)
    assert [(each.gguf.weights, each.settings) for each in report.compared] == [
        (weights, settings) for weights in ("F32", "Q8_0") for settings in SETTINGS
    ]
    assert report.same_template is True
    exact, rough = report.compared[0].agreement, report.compared[1].agreement
    assert exact.argmax == rough.argmax == 15
    assert exact.vocabulary.largest == exact.labels.largest == pytest.approx(0.0001220703125)
    assert rough.vocabulary.largest == pytest.approx(0.25)
    assert rough.vocabulary.mean == pytest.approx(0.25 / N_VOCAB)


def test_json_has_all_figures_and_no_path(request_: Request, tmp_path: Path) -> None:
    text = json.dumps(as_json(parity(request_)))
    assert "secret" not in text
    assert str(tmp_path) not in text
    said = json.loads(text)
    assert said["command"] == (
        "hostwheel parity --gguf F32.gguf --gguf Q8_0.gguf --model model --json"
    )
    assert said["compared"][3]["gguf"] == "Q8_0.gguf"
    assert said["compared"][0]["argmax"] == "15/15"
    assert said["compared"][0]["options"] == {"flash_attn": False, "type_k": 0, "type_v": 0}
    assert said["prompts"][5]["labels"] == {"Yes": 1, "No": 2}
    assert set(said["why"]) == {"F32 weights", "Q8_0 weights", *SETTINGS}


def test_the_table_fits_80_columns(request_: Request) -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    show(parity(request_), console)
    text = console.export_text()
    assert all(len(line.rstrip()) <= 80 for line in text.splitlines())
    row = ["15/15", "2.5e-01", "2.0e-03", "2.5e-01", "2.7e-02"]
    lines = [line.split() for line in text.splitlines()]
    assert ["F16", "cache,", "FlashAttention", *row] in lines
    assert "…" not in text


def test_without_a_model_the_first_gguf_is_the_reference(request_: Request) -> None:
    gguf = request_.ggufs[0]
    gguf.write_bytes(b"GGUF")
    report = parity(replace(request_, model=None))
    assert report.source == Source(folder=gguf.parent, file="F32.gguf")


def test_a_model_without_template_gets_plain_text(
    request_: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tokenizer, "chat_template", None)
    report = parity(request_)
    assert report.same_template is None
    assert report.prompts[0].text == f"\x03{QUESTIONS[0].message}\nAnswer:\n"


def test_another_rendering_is_told(request_: Request, monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(Tokenizer):
        def apply_chat_template(self, messages: Any, **how: bool) -> str:
            return "something else"

    monkeypatch.setattr(
        Reference, "__init__", lambda self, source: setattr(self, "tokenizer", Other())
    )
    assert parity(request_).same_template is False


# What is refused


def test_at_most_refuses_only_what_is_worse(request_: Request) -> None:
    report = parity(request_)
    check_agreement(report, 0.00013)
    for bound in (0.0001, math.nan):
        with pytest.raises(Refused, match=r"F32\.gguf.*1\.2e-04"):
            check_agreement(report, bound)


@pytest.mark.parametrize("bound", ["nan", "-1", "much"])
def test_at_most_takes_no_bound_that_nothing_meets(
    bound: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["parity", "--gguf", "m.gguf", f"--at-most={bound}"])
    assert caught.value.code == 2
    assert f"--at-most: invalid difference value: '{bound}'" in capsys.readouterr().err


def test_at_most_refuses_another_argmax(request_: Request) -> None:
    report = parity(request_)
    worse = replace(report.compared[0].agreement, argmax=14)
    compared = (replace(report.compared[0], agreement=worse), *report.compared[1:])
    with pytest.raises(Refused, match="14 of 15"):
        check_agreement(replace(report, compared=compared), 1.0)


def test_vocabularies_of_two_sizes_are_refused(
    request_: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reference, "rows", lambda self, prompts: iter([np.zeros(N_VOCAB + 1)]))
    with pytest.raises(Refused, match=r"129 logits.*128 tokens"):
        parity(request_)


def test_a_label_of_two_tokens_is_refused() -> None:
    own: Any = Tokenizer()
    assert label_token("Yes", own) == 1
    with pytest.raises(TokenMismatchError, match="'Maybe'"):
        label_token("Maybe", own)


def test_what_is_no_gguf_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "model.gguf"
    text.write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(BadInput, match=r"not a GGUF: it begins with b'vers'"):
        read_gguf(text)
    with pytest.raises(BadInput, match=r"none\.gguf: cannot be read: No such file"):
        read_gguf(tmp_path / "none.gguf")
    with pytest.raises(BadInput, match="Is a directory"):
        read_gguf(tmp_path)


def test_a_gguf_that_llama_cpp_does_not_load_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(b"GGUF" + bytes(4))
    lib = SimpleNamespace(
        llama_model_default_params=SimpleNamespace,
        llama_model_load_from_file=lambda path, params: None,
    )
    monkeypatch.setattr(parity_files, "library", lambda: lib)
    with pytest.raises(BadInput, match=r"damaged\.gguf: llama\.cpp does not load it"):
        read_gguf(damaged)


def test_sources_that_transformers_reads(tmp_path: Path) -> None:
    gguf = tmp_path / "m.gguf"
    gguf.write_bytes(b"GGUF....")
    assert find_source(gguf).name == "m.gguf"
    with pytest.raises(BadInput, match=r"no config\.json"):
        find_source(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    assert find_source(tmp_path).name == tmp_path.name
    with pytest.raises(BadInput, match="has to be downloaded first"):
        find_source(Path("HuggingFaceTB/SmolLM2-135M-Instruct"))


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parity_reference, "find_spec", lambda name: name != "torch" or None)
    with pytest.raises(MachineLacks, match=r"needs torch in .*pip install 'hostwheel\[parity\]'"):
        parity_reference.check_packages()
    monkeypatch.setattr(parity_reference, "find_spec", lambda name: True)
    parity_reference.check_packages()


def test_a_model_too_large_for_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = SimpleNamespace(virtual_memory=lambda: SimpleNamespace(available=8 * 2**30))
    monkeypatch.setattr(parity_reference, "import_module", lambda name: memory)
    source = Source(folder=Path("models"), file="m.gguf")
    parity_reference.check_memory(source, 600_000_000)
    with pytest.raises(MachineLacks, match=r"m\.gguf has 1,000,000,000 .* 11\.2 GiB .* 8\.0 GiB"):
        parity_reference.check_memory(source, 1_000_000_000)
    parity_reference.check_memory(replace(source, file=None), 1_000_000_000)
