"""The readout on the real engine: a random model against numpy, SmolLM2 against llama-server."""

import json
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hostwheel.readout import LlamaCppBackend
from hostwheel.readout.library import package
from smoke.reference import last_logits, load
from tests.answers import served
from tests.builds import Installed

pytest_plugins = ("tests.engines",)
pytestmark = [pytest.mark.build, pytest.mark.engine, pytest.mark.timeout(3600)]

anyjev: Any = import_module("anyjev")  # has no type information
EXACT = 1e-4  # largest difference of a log-probability: F32 weights, F32 cache, no FlashAttention
TEXT = "The quick brown fox jumps over the lazy dog, and then it sleeps."
SUFFIXES = [f" Was that {what}? Answer" for what in ("a fox", "a dog", "so", "²", "it", "wise")]


@pytest.fixture(scope="module")
def backend(tiny: Path) -> Iterator[LlamaCppBackend]:
    with LlamaCppBackend(tiny, n_ctx=512, n_batch=64) as backend:
        yield backend


def apart(one: Sequence[NDArray[np.float64]], other: Sequence[NDArray[np.float64]]) -> float:
    return max(float(np.abs(a - b).max()) for a, b in zip(one, other, strict=True))


def everything(backend: LlamaCppBackend) -> range:
    return range(backend.n_vocab)


def test_rows_are_those_of_an_independent_forward_pass(
    backend: LlamaCppBackend, tiny: Path
) -> None:
    weights = load(tiny)
    for text in ("Hello", TEXT, TEXT * 8):  # one chunk, and three of n_batch
        (row,) = backend.next_token_distributions([text])
        logits = last_logits(weights, backend.tokenizer.encode(text, add_special_tokens=False))
        expected = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
        assert apart([row], [expected]) < EXACT
        assert row.argmax() == expected.argmax()


def test_shared_prefixes_give_the_plain_rows(backend: LlamaCppBackend) -> None:
    prefix = TEXT * 12
    (shared,) = backend.score_shared([(prefix, SUFFIXES)], [everything(backend)])
    plain = backend.next_token_distributions([prefix + suffix for suffix in SUFFIXES])
    assert backend.shared_fallbacks == 0
    assert 0 < apart(shared, plain) < EXACT


def test_a_prompts_row_does_not_depend_on_its_company(backend: LlamaCppBackend) -> None:
    texts = [TEXT, *SUFFIXES, TEXT * 5]
    together = backend.next_token_distributions(texts)
    alone = [backend.next_token_distributions([text])[0] for text in reversed(texts)]
    assert apart(together, alone[::-1]) == 0


def test_a_split_inside_a_token_gives_the_plain_rows(tiny: Path) -> None:
    with LlamaCppBackend(tiny) as backend:
        (shared,) = backend.score_shared(
            [(TEXT + " Philos", ["ophy", "opher says"])], [everything(backend)]
        )
        plain = backend.next_token_distributions([TEXT + " Philosophy", TEXT + " Philosopher says"])
        assert backend.shared_fallbacks == 1
    assert apart(shared, plain) < EXACT


def test_a_borrowed_llama_gives_the_same_and_goes_on_after(
    engine: Installed, backend: LlamaCppBackend, tiny: Path
) -> None:
    llama = package("llama_cpp").Llama(
        str(tiny), n_ctx=512, n_batch=64, type_k=0, type_v=0, verbose=False
    )
    asked = {"prompt": TEXT, "max_tokens": 4, "temperature": 0}
    before = llama(**asked)["choices"][0]["text"]
    borrowed = LlamaCppBackend(llm=llama)
    plain = borrowed.next_token_distributions([TEXT])
    (shared,) = borrowed.score_shared([(TEXT, SUFFIXES)], [everything(backend)])
    borrowed.close()
    assert llama(**asked)["choices"][0]["text"] == before
    assert apart(plain, backend.next_token_distributions([TEXT])) < EXACT
    assert apart(shared, backend.score_shared([(TEXT, SUFFIXES)], [everything(backend)])[0]) < EXACT
    llama.close()
    with pytest.raises(RuntimeError, match="closed"):
        LlamaCppBackend(llm=llama)


def test_the_context_can_be_filled_and_not_overfilled(tiny: Path) -> None:
    with LlamaCppBackend(tiny, n_ctx=256) as backend:
        ids = backend.tokenizer.encode("a" + " a" * 255, add_special_tokens=False)
        text = backend.tokenizer.decode(ids)
        assert len(ids) == backend.n_ctx == 256
        backend.next_token_distributions([text])
        backend.score_shared([(text[:100], [text[100:], text[100:-2]])], [[1]])
        with pytest.raises(ValueError, match="257 tokens is longer than the context of 256"):
            backend.next_token_distributions([text + " a"])


def test_the_context_is_what_was_asked_for(tiny: Path) -> None:
    with LlamaCppBackend(tiny, n_ctx=64) as backend:  # llama.cpp makes it 256
        assert backend.n_ctx == 64
        with pytest.raises(ValueError, match="longer than the context of 64"):
            backend.next_token_distributions([TEXT * 5])


def test_after_close_nothing_crashes(tiny: Path) -> None:
    backend = LlamaCppBackend(tiny)
    backend.close()
    backend.close()
    with pytest.raises(RuntimeError, match="closed"):
        backend.next_token_logprobs(["a"], [[1]])
    with pytest.raises(RuntimeError, match="closed"):
        backend.tokenizer.encode("a")


def test_what_is_no_model_is_refused(engine: Installed, sources: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(20))
    without_weights = sources / "models" / "ggml-vocab-llama-spm.gguf"
    for path in (broken, without_weights):
        with pytest.raises(ValueError, match=path.name):
            LlamaCppBackend(path)


# SmolLM2 behind anyjev, and beside llama-server


@pytest.fixture(scope="module")
def smol(engine: Installed, smollm2: Path) -> Iterator[LlamaCppBackend]:
    with LlamaCppBackend(smollm2, n_ctx=1024) as backend:
        yield backend


COLOURS = anyjev.Question.choice("What colour is the ball?", ["red", "green", "blue"])
QUESTIONS = [COLOURS, anyjev.Question.noul("Red?"), anyjev.Question.score("How red?", 3)]
STATE = "A red ball lies on a green lawn, under a blue sky. " * 3


def test_anyjev_decides_raw_and_debiased(smol: LlamaCppBackend) -> None:
    decider = anyjev.Decider(smol, shared_min_prefix_tokens=32)
    for level in ("raw", "L0"):
        decided = decider.decide(STATE, QUESTIONS, level=level)
        for decision in decided:
            assert np.sum(decision.probs) == pytest.approx(1)
    assert decider.stats["shared_groups"] >= 1
    assert decider.stats["shared_prompts"] >= 3
    assert smol.shared_fallbacks == 0


def test_shared_and_plain_decisions_agree(smol: LlamaCppBackend) -> None:
    shared, plain = (
        anyjev.Decider(smol, shared_prefix=how).decide(STATE, [COLOURS], level="L0")[0]
        for how in (True, False)
    )
    np.testing.assert_allclose(shared.probs, plain.probs, atol=0.1)  # Q4_1 weights


def test_llama_server_gives_the_same_logprobs(
    smol: LlamaCppBackend, smollm2: Path, engine: Installed, tmp_path: Path
) -> None:
    server = tmp_path / "exact-server"
    program = engine.prefix / "bin" / "llama-server"
    server.write_text(f'#!/bin/sh\nexec {program} "$@" -fa off -ctk f32 -ctv f32\n')
    server.chmod(0o755)
    with served(server, smollm2, tmp_path) as address:
        for question in QUESTIONS:
            prompt, labels = rendered(smol, question)
            told = ask_logprobs(address, smol.tokenizer.encode(prompt, add_special_tokens=False))
            (row,) = smol.next_token_distributions([prompt])
            (ours,) = smol.next_token_logprobs([prompt], [list(told)])
            np.testing.assert_allclose(ours, list(told.values()), atol=1e-3)
            assert {int(row.argmax()), *labels} <= set(told)


def rendered(backend: LlamaCppBackend, question: Any) -> tuple[str, list[int]]:
    """anyjev's prompt of a question, and the token ids of its labels."""
    labels, ids = anyjev.readout.resolve_labels(backend.tokenizer, question)
    order = range(question.k)
    spec = anyjev.readout.build_prompt("A red ball on a lawn.", question, order, labels=labels)
    return anyjev.readout.render_chat(backend.tokenizer, spec), ids


def ask_logprobs(address: str, prompt: Sequence[int]) -> Mapping[int, float]:
    """llama-server's own log-probabilities of the likeliest next tokens."""
    body = {"prompt": list(prompt), "n_predict": 1, "n_probs": 50, "temperature": -1}
    request = urllib.request.Request(
        f"{address}/completion",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as reply:
        answer: Any = json.load(reply)
    (place,) = answer["completion_probabilities"]
    return {each["id"]: each["logprob"] for each in place["top_logprobs"]}
