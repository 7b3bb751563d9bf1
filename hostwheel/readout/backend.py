"""The readout: log-probabilities of the next token, from the last position of each prompt."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any, Self

from hostwheel.readout.agreement import check_labels, check_prompt, load_tokenizer
from hostwheel.readout.arguments import (
    checked_groups,
    checked_length,
    checked_lists,
    checked_prompts,
)
from hostwheel.readout.decoder import Decoder, Row
from hostwheel.readout.library import library
from hostwheel.readout.model import Model, load_model
from hostwheel.readout.share import Tokens, common_prefix
from hostwheel.readout.tokenizer import GGUFTokenizer
from hostwheel.readout.vocabulary import Vocabulary


class LlamaCppBackend:
    """log p(token | prompt) from a GGUF, over the full vocabulary. Nothing is sampled.

    A prompt is a rendered text. Its tokens are the GGUF's, special tokens by their names, and
    nothing is put before or after them: BOS comes from the chat template. Only the last position's
    logits are computed. Each prompt is decoded by itself, so its figures do not depend on others.

    Defaults are exact rather than fast: FlashAttention off, KV cache in F32 (`flash_attn=False,
    type_k=type_v=0`, twice the memory of F16). On SmolLM2-135M-Instruct with F32 weights the
    largest difference to transformers in float32 over the vocabulary is below 1e-4 so, 0.02 with an
    F16 cache and 0.08 with FlashAttention too. Rounded weights do more: 0.04 with F16, 1.05 with
    Q8_0, where 13 of 15 likeliest tokens are equal (`bench/parity_smollm2.json`).

    n_ctx is 4096 (0: the model's own), n_batch 512 and n_gpu_layers 0 where they are not passed.
    `llama_kwargs` are those of `llama_cpp.Llama`; an unknown one is refused.

    `n_batch` is how many tokens go to the engine at once. With quantized weights the figures depend
    on it, as they do on whether `score_shared` is used; keep one n_batch for one experiment.

    `llm=` borrows a `Llama`: its n_ctx, n_batch and settings hold, and none may be passed. It is
    reset before and after each call, and never closed here. It has one sequence, so suffixes go one
    after another.

    `tokenizer=`, a Hugging Face name, folder or object, then renders and maps labels; each prompt
    and label is checked against the GGUF's vocabulary (TokenMismatchError).

    Threads may share a backend: calls wait for one another. Don't use a borrowed `llm` meanwhile.

    If the process dies of an illegal instruction, the installed llama-cpp-python was compiled for
    another CPU: `hostwheel audit` says which instructions, and a wheel that is built for this host
    does not have them.

    Raises ValueError for wrong arguments, MachineLacks where llama_cpp is missing or lacks a
    function, RuntimeError after `close()` and where llama.cpp fails.
    """

    def __init__(
        self,
        model_path: str | os.PathLike[str] | None = None,
        *,
        llm: Any = None,
        tokenizer: Any = None,
        name: str | None = None,
        n_ctx: int | None = None,
        n_batch: int | None = None,
        n_gpu_layers: int | None = None,
        **llama_kwargs: Any,
    ) -> None:
        if (model_path is None) == (llm is None):
            raise ValueError("pass either model_path or llm=")
        sizes = {"n_ctx": n_ctx, "n_batch": n_batch, "n_gpu_layers": n_gpu_layers}
        settings = {name: size for name, size in sizes.items() if size is not None} | llama_kwargs
        if llm is not None and settings:
            raise ValueError(f"llm= is already made, with its own {', '.join(settings)}")
        lib = library()
        model = load_model(lib, model_path, llm, settings)
        try:
            self._take(lib, model, tokenizer)
        except BaseException:
            model.close()
            raise
        if llm is None and n_ctx:
            self.n_ctx = n_ctx  # llama.cpp rounds up to 256; what was asked for holds
        self.name = name or model_name(self._vocabulary)
        self.shared_fallbacks = 0  # groups of score_shared whose split is not between two tokens

    def _take(self, lib: Any, model: Model, tokenizer: Any) -> None:
        self._lock = RLock()
        self._closed = False
        self._model = model
        self._vocabulary = Vocabulary(lib, model.model, self._lock)
        self._decoder = Decoder(lib, model, self._vocabulary.size)
        self.n_ctx = self._decoder.n_ctx
        self.n_batch = self._decoder.n_batch
        self.n_vocab = self._vocabulary.size
        self.gguf_tokenizer = GGUFTokenizer(self._vocabulary)
        self._foreign = None if tokenizer is None else load_tokenizer(tokenizer)
        self.tokenizer: Any = self.gguf_tokenizer if tokenizer is None else self._foreign

    def next_token_logprobs(
        self, prompts: Iterable[str], token_ids: Iterable[Iterable[int]]
    ) -> list[Row]:
        """For prompt i the log p of each of token_ids[i]: float64, in the order of the ids.

        Equal prompts are decoded once. Raises ValueError before anything is decoded when the
        lengths differ, a prompt is empty or longer than the context, or an id is no token's.
        """
        self._refuse_closed()
        texts = checked_prompts(prompts)
        ids = checked_lists(token_ids, len(texts), "prompts", self.n_vocab)
        with self._open():
            self._check_labels(ids)
            return self._alone(self._prompts(texts, "prompt {}"), ids)

    def next_token_distributions(self, prompts: Iterable[str]) -> list[Row]:
        """For each prompt the whole log-softmax: (n_vocab,) float64, by token id."""
        self._refuse_closed()
        texts = checked_prompts(prompts)
        with self._open():
            every = list(range(self.n_vocab))
            return self._alone(self._prompts(texts, "prompt {}"), [every] * len(texts))

    def score_shared(
        self,
        groups: Iterable[tuple[str, Iterable[str]]],
        token_ids: Iterable[Iterable[int]],
    ) -> list[list[Row]]:
        """For group g = (prefix, suffixes) the log p of token_ids[g] after each prefix + suffix.

        The tokens that all texts of a group begin with are decoded once, the rest of many texts in
        one batch. From `next_token_logprobs` it differs, because the engine's kernels depend on
        the shape of the batch. With the default settings the largest difference of log p is 3e-5
        with F32 weights, 0.03 with F16 and 0.51 with Q8_0 (0.87 with an F16 cache and
        FlashAttention; SmolLM2-135M-Instruct, `bench/readout.json`); up to 1.2 was seen with a
        gemma-3-270m in Q4_K_M. So use one path, and one n_batch, throughout an experiment.

        `shared_fallbacks` counts the groups whose prefix does not end between two tokens of each
        text: they share what tokens they have in common before. It also counts those that are
        decoded text by text, because a borrowed `llm` cannot go back to a prefix.
        """
        self._refuse_closed()
        checked = checked_groups(groups)
        ids = checked_lists(token_ids, len(checked), "groups", self.n_vocab)
        with self._open():
            self._check_labels(ids)
            texts = [
                self._prompts([head + tail for tail in tails], f"prompt {{}} of group {at}")
                for at, (head, tails) in enumerate(checked)
            ]
            heads = [self._vocabulary.tokenize(head, add_special=False) for head, _ in checked]
            return list(map(self._group, heads, texts, ids))

    def _alone(self, texts: Sequence[Tokens], ids: Sequence[Sequence[int]]) -> list[Row]:
        """Each different text decoded by itself."""
        places: dict[Tokens, list[int]] = {}
        for at, text in enumerate(texts):
            places.setdefault(text, []).append(at)
        found: dict[int, Row] = {}
        for text, where in places.items():
            for row in self._decoder.rows((), [text]):
                found |= {at: row[list(ids[at])] for at in where}
        return [found[at] for at in range(len(texts))]

    def _group(self, head: Tokens, texts: Sequence[Tokens], ids: Sequence[int]) -> list[Row]:
        """Texts that go on from one prefix."""
        together = self._decoder.can_branch()
        if not together or any(text[: len(head)] != head for text in texts):
            self.shared_fallbacks += 1
        if not together or not texts:
            return self._alone(texts, [ids] * len(texts))
        different = list(dict.fromkeys(texts))
        shared = common_prefix(different)
        rows = self._decoder.rows(texts[0][:shared], [text[shared:] for text in different])
        found = {text: row[list(ids)] for text, row in zip(different, rows, strict=True)}
        return [found[text].copy() for text in texts]

    def _prompts(self, texts: Sequence[str], name: str) -> list[Tokens]:
        """The tokens of each text; `name` has a place for its number."""
        return [self._tokens(text, name.format(at)) for at, text in enumerate(texts)]

    def _tokens(self, text: str, name: str) -> Tokens:
        tokens = self._vocabulary.tokenize(text, add_special=False)
        if self._foreign is not None:
            check_prompt(text, self._foreign.encode(text, add_special_tokens=False), tokens)
        checked_length(tokens, text, self.n_ctx, name)
        return tokens

    def _check_labels(self, lists: Iterable[Sequence[int]]) -> None:
        if self._foreign is not None:
            for ids in lists:
                check_labels(ids, self._foreign, self._vocabulary)

    @contextmanager
    def _open(self) -> Iterator[None]:
        """The lock. A caller's iterables are drained before: threads that wait may feed them."""
        with self._lock:
            self._refuse_closed()
            yield

    def _refuse_closed(self) -> None:
        if self._closed:
            raise RuntimeError("this backend is closed")

    def close(self) -> None:
        """Free what was loaded here, after the calls that are under way. Twice is fine."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._model.close()

    def __enter__(self) -> Self:
        self._refuse_closed()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def model_name(vocabulary: Vocabulary) -> str:
    """What the GGUF calls itself. A file name says nothing: llama-quantize's is always the same."""
    keys = ("general.basename", "general.name", "general.architecture")
    return next(filter(None, map(vocabulary.metadata, keys)), "unnamed")
