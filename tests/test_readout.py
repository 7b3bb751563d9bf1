"""The backend against a stand-in for llama_cpp that refuses wrong positions and freed pointers."""

import gc
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from queue import Queue
from threading import Thread
from time import sleep
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hostwheel.readout import LlamaCppBackend
from hostwheel.readout.decoder import log_softmax
from tests.stub_cache import N_VOCAB, logits_after
from tests.stub_llama import Library, cut

pytest_plugins = ("tests.stubbed",)

YES_NO = [257, ord("N")]


def expected(text: str, ids: Iterable[int]) -> NDArray[np.float64]:
    logits = logits_after(cut(text.encode())).astype(np.float64)
    probabilities = np.exp(logits) / np.exp(logits).sum()
    return np.asarray(np.log(probabilities[list(ids)]))


def assert_equal(got: Iterable[NDArray[np.float64]], texts: list[str], ids: list[int]) -> None:
    for row, text in zip(got, texts, strict=True):
        assert row.dtype == np.float64
        np.testing.assert_allclose(row, expected(text, ids), rtol=0, atol=1e-12)


# what is read


def test_the_last_row_of_each_prompt_and_no_other_is_read(
    backend: LlamaCppBackend, lib: Library
) -> None:
    texts = ["a", "the quick brown fox jumps over the lazy dog", "Yes or no?"]
    assert_equal(backend.next_token_logprobs(texts, [YES_NO] * 3), texts, YES_NO)
    assert lib.rows_read == len(texts)


def test_a_long_prompt_goes_in_chunks_of_n_batch(backend: LlamaCppBackend, lib: Library) -> None:
    text = "x" * 40
    assert_equal(backend.next_token_logprobs([text], [YES_NO]), [text], YES_NO)
    assert lib.batches == [16, 16, 8]


def test_equal_prompts_are_decoded_once_whatever_their_ids(
    backend: LlamaCppBackend, lib: Library
) -> None:
    one, other, last = backend.next_token_logprobs(["abc", "xyz", "abc"], [[1, 2], [3], [4]])
    assert lib.decoded == 6
    np.testing.assert_allclose(one, expected("abc", [1, 2]))
    np.testing.assert_allclose(other, expected("xyz", [3]))
    np.testing.assert_allclose(last, expected("abc", [4]))


def test_ids_and_prompts_may_be_any_iterable(backend: LlamaCppBackend) -> None:
    ids = (iter(np.array(YES_NO)) for _ in range(2))
    got = backend.next_token_logprobs((text for text in ("ab", "cd")), ids)
    assert_equal(got, ["ab", "cd"], YES_NO)
    assert backend.next_token_logprobs(["ab"], [[]])[0].shape == (0,)
    assert backend.next_token_logprobs([], []) == []


def test_the_whole_distribution_sums_to_one(backend: LlamaCppBackend) -> None:
    (row,) = backend.next_token_distributions(["abc"])
    assert row.shape == (N_VOCAB,) == (backend.n_vocab,)
    assert np.exp(row).sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(row, expected("abc", range(N_VOCAB)))


def test_log_softmax_holds_for_large_logits_and_refuses_what_has_none() -> None:
    row = log_softmax(np.array([1e4, 1e4 - 1, -1e4]))
    np.testing.assert_allclose(row[:2], [-0.31326169, -1.31326169])
    np.testing.assert_array_equal(log_softmax(np.array([0.0, -np.inf])), [0.0, -np.inf])
    for wrong in ([0.0, np.nan], [np.inf, np.nan], [0.0, np.inf], [-np.inf, -np.inf]):
        with pytest.raises(RuntimeError, match=r"NaN or \+inf"):
            log_softmax(np.array(wrong))


# prefixes


def test_a_prefix_is_decoded_once_and_the_suffixes_side_by_side(
    backend: LlamaCppBackend, lib: Library
) -> None:
    prefix, suffixes = "p" * 20, ["one", "two", "tree", "x"]
    (rows,) = backend.score_shared([(prefix, suffixes)], [YES_NO])
    assert_equal(rows, [prefix + suffix for suffix in suffixes], YES_NO)
    assert lib.batches == [16, 4, 11]
    assert backend.shared_fallbacks == 0


def test_suffixes_that_do_not_fit_together_go_in_waves(
    backend: LlamaCppBackend, lib: Library
) -> None:
    prefix, suffixes = "p" * 100, [f"{at:040d}" for at in range(5)]  # two fit beside the prefix
    (rows,) = backend.score_shared([(prefix, suffixes)], [YES_NO])
    assert_equal(rows, [prefix + suffix for suffix in suffixes], YES_NO)
    assert lib.decoded < 100 + 5 * 40


def test_more_suffixes_than_sequences(backend: LlamaCppBackend) -> None:
    suffixes = [f"{at}" for at in range(100)]
    (rows,) = backend.score_shared([("pre", suffixes)], [YES_NO])
    assert_equal(rows, ["pre" + suffix for suffix in suffixes], YES_NO)


def test_groups_do_not_see_each_other(backend: LlamaCppBackend) -> None:
    groups = [("first", ["a", "b"]), ("second", ["c"]), ("", ["d", "e"]), ("none", [])]
    got = backend.score_shared(groups, [YES_NO, [1], [2], [3]])
    assert_equal(got[0], ["firsta", "firstb"], YES_NO)
    assert_equal(got[1], ["secondc"], [1])
    assert_equal(got[2], ["d", "e"], [2])
    assert got[3] == []


def test_equal_suffixes_and_an_empty_one(backend: LlamaCppBackend, lib: Library) -> None:
    (rows,) = backend.score_shared([("pre", ["x", "", "x"])], [YES_NO])
    assert_equal(rows, ["prex", "pre", "prex"], YES_NO)
    assert lib.decoded == 2 + 1 + 2


def test_a_split_inside_a_token_falls_back_and_is_counted(
    backend: LlamaCppBackend, lib: Library
) -> None:
    groups = [("spot", ["hot", "hit"]), ("spot", ["ten", "hit"]), ("spot", ["ten", "tan"])]
    got = backend.score_shared(groups, [YES_NO] * 3)
    for rows, (prefix, suffixes) in zip(got, groups, strict=True):
        assert_equal(rows, [prefix + suffix for suffix in suffixes], YES_NO)
    assert backend.shared_fallbacks == 2


# a borrowed Llama


def test_a_borrowed_llama_keeps_its_sizes_is_reset_and_never_closed(llama: Any) -> None:
    backend = LlamaCppBackend(llm=llama)
    assert (backend.n_ctx, backend.n_batch) == (64, 8)
    assert_equal(backend.next_token_logprobs(["abc"], [YES_NO]), ["abc"], YES_NO)
    assert llama.resets == 2
    backend.close()
    assert llama.closes == 0


def test_a_borrowed_llama_is_rolled_back_to_the_prefix(llama: Any, lib: Library) -> None:
    backend = LlamaCppBackend(llm=llama)
    (rows,) = backend.score_shared([("prefix", ["ab", "cd", "e"])], [YES_NO])
    assert_equal(rows, ["prefixab", "prefixcd", "prefixe"], YES_NO)
    assert lib.batches == [6, 2, 2, 1]


@pytest.mark.parametrize("kind", ["recurrent", "window"])
def test_what_cannot_be_rolled_back_is_decoded_anew_and_counted(
    llama: Any, lib: Library, kind: str
) -> None:
    setattr(lib, kind, 4)
    backend = LlamaCppBackend(llm=llama)
    (rows,) = backend.score_shared([("prefix", ["ab", "cd"])], [YES_NO])
    assert_equal(rows, ["prefixab", "prefixcd"], YES_NO)
    assert backend.shared_fallbacks == 1
    assert lib.decoded == 16


def test_a_recurrent_model_of_our_own_keeps_one_state(lib: Library, model: Path) -> None:
    lib.recurrent = True
    with LlamaCppBackend(model) as backend:
        (rows,) = backend.score_shared([("prefix", ["ab", "cd"])], [YES_NO])
    assert_equal(rows, ["prefixab", "prefixcd"], YES_NO)
    assert backend.shared_fallbacks == 1


def test_a_borrowed_llama_that_its_owner_closed_is_an_error(llama: Any) -> None:
    backend = LlamaCppBackend(llm=llama)
    llama.close()
    with pytest.raises(RuntimeError, match="closed"):
        backend.next_token_logprobs(["a"], [[1]])
    with pytest.raises(RuntimeError, match="closed"):
        backend.tokenizer.encode("a")


# failures and the end


def test_a_failed_decode_is_an_error_and_the_next_call_works(
    backend: LlamaCppBackend, lib: Library
) -> None:
    lib.decode_code = -3
    with pytest.raises(RuntimeError, match="llama_decode returned -3 for 3 tokens"):
        backend.next_token_logprobs(["abc"], [YES_NO])
    lib.decode_code = 0
    assert_equal(backend.next_token_logprobs(["abc"], [YES_NO]), ["abc"], YES_NO)


def test_logits_that_are_no_numbers_are_an_error(backend: LlamaCppBackend, lib: Library) -> None:
    lib.not_a_number = True
    with pytest.raises(RuntimeError, match="NaN"):
        backend.next_token_logprobs(["abc"], [YES_NO])


def test_after_close_every_call_raises(lib: Library, model: Path) -> None:
    with LlamaCppBackend(model) as backend:
        backend.next_token_logprobs(["a"], [[1]])
    backend.close()
    tokenizer = backend.tokenizer
    for call in (
        lambda: backend.next_token_logprobs(["a"], [[1]]),
        lambda: backend.next_token_logprobs([], []),
        lambda: backend.next_token_distributions(["a"]),
        lambda: backend.score_shared([("a", ["b"])], [[1]]),
        backend.__enter__,
        lambda: len(tokenizer),
        lambda: tokenizer.encode("a"),
        lambda: tokenizer.decode([1]),
        lambda: tokenizer.apply_chat_template([{"role": "user", "content": "a"}]),
    ):
        with pytest.raises(RuntimeError, match="closed"):
            call()


def test_what_is_forgotten_is_freed_in_order(
    package: ModuleType, lib: Library, model: Path
) -> None:
    backend = LlamaCppBackend(model)
    (llama,) = package.Llama.made
    del backend
    gc.collect()
    assert llama.closes == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda backend, texts, ids: backend.next_token_logprobs(texts, [YES_NO] * 2),
        lambda backend, texts, ids: backend.next_token_logprobs(["a", "b"], [YES_NO, ids]),
        lambda backend, texts, ids: backend.next_token_distributions(texts),
        lambda backend, texts, ids: backend.score_shared([("a", texts)], [YES_NO]),
        lambda backend, texts, ids: backend.score_shared([("a", ["b"])], [ids]),
    ],
)
def test_a_thread_that_needs_the_tokenizer_may_feed_what_is_passed(
    backend: LlamaCppBackend, call: Callable[..., object]
) -> None:
    pipe: Queue[str] = Queue()

    def fed() -> Iterator[str]:
        def feed() -> None:
            for text in ("one", "two"):
                ids = backend.tokenizer.encode(text, add_special_tokens=False)
                pipe.put(backend.tokenizer.decode(ids))

        Thread(target=feed, daemon=True).start()
        for _ in range(2):
            yield pipe.get(timeout=5)  # queue.Empty where the lock is held meanwhile

    assert call(backend, fed(), (len(text) for text in fed()))


def test_threads_wait_for_one_another_and_close_for_all(lib: Library, model: Path) -> None:
    backend = LlamaCppBackend(model, n_ctx=200, n_batch=4)
    texts = [f"text number {at}" for at in range(8)]
    got: dict[str, list[NDArray[np.float64]]] = {}

    def read(text: str) -> None:
        got[text] = backend.score_shared([(text, ["a", "b"])], [YES_NO])[0]

    threads = [Thread(target=read, args=(text,)) for text in texts]
    lib.on_decode = lambda: sleep(0.001)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    backend.close()
    for text in texts:
        assert_equal(got[text], [text + "a", text + "b"], YES_NO)
