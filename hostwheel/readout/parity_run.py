"""GGUF files and a model for transformers → the same prompts through both → a report."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostwheel.errors import BadInput, Refused
from hostwheel.readout.agreement import TokenMismatchError
from hostwheel.readout.backend import LlamaCppBackend
from hostwheel.readout.decoder import Row
from hostwheel.readout.parity import Agreement, agreement
from hostwheel.readout.parity_files import Gguf, Source, find_source, read_gguf
from hostwheel.readout.parity_reference import Reference, check_memory, check_packages
from hostwheel.readout.questions import QUESTIONS, Question
from hostwheel.readout.settings import EXACT
from hostwheel.readout.tokenizer import GGUFTokenizer

CONTEXT = 2048  # tokens; the longest question has about 720
F16 = {"type_k": 1, "type_v": 1}  # GGML_TYPE_F16

# What can be chosen for a context and changes its numbers, by the name shown.
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "F32 cache": EXACT,
    "F16 cache": {**EXACT, **F16},
    "F16 cache, FlashAttention": {**F16, "flash_attn": True},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """`model`: what transformers reads, None for the first GGUF itself."""

    ggufs: tuple[Path, ...]
    model: Path | None = None
    questions: tuple[Question, ...] = QUESTIONS


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """A question as both engines get it. `labels` are token ids."""

    question: Question
    text: str
    tokens: tuple[int, ...]
    labels: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """One GGUF with one of SETTINGS, against transformers."""

    gguf: Gguf
    settings: str
    agreement: Agreement


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """`same_template` is None where the model for transformers has no chat template."""

    source: Source
    prompts: tuple[Prompt, ...]
    same_template: bool | None
    compared: tuple[Compared, ...]


def parity(request: Request) -> Report:
    """Raises BadInput, MachineLacks, and Refused (TokenMismatchError) before any comparison."""
    ggufs = [read_gguf(path) for path in request.ggufs]
    source = find_source(request.model or request.ggufs[0])
    check_packages()
    check_memory(source, max(gguf.parameters for gguf in ggufs))
    say(f"transformers reads the tokenizer of {source.name}")
    reference = Reference(source)
    prompts = make_prompts(ggufs[0], request.questions, reference.tokenizer)
    ours = [
        (gguf, settings, llama_rows(gguf, settings, prompts, reference.tokenizer))
        for gguf in ggufs
        for settings in SETTINGS
    ]
    theirs = reference_rows(reference, prompts, n_vocab=len(ours[0][2][0]))
    labels = [prompt.labels for prompt in prompts]
    return Report(
        source=source,
        prompts=prompts,
        same_template=same_template(prompts, reference.tokenizer),
        compared=tuple(
            Compared(gguf=gguf, settings=settings, agreement=agreement(labels, rows, theirs))
            for gguf, settings, rows in ours
        ),
    )


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def opened(gguf: Gguf, settings: str, tokenizer: Any) -> LlamaCppBackend:
    try:
        return LlamaCppBackend(gguf.path, tokenizer=tokenizer, n_ctx=CONTEXT, **SETTINGS[settings])
    except (RuntimeError, ValueError) as error:
        raise BadInput(f"{gguf.path}: llama.cpp does not load it: {error}") from error


def make_prompts(gguf: Gguf, questions: Sequence[Question], tokenizer: Any) -> tuple[Prompt, ...]:
    """Texts and labels by the GGUF's vocabulary and template, tokens by transformers'.

    The readout refuses a text or label that the two take differently.
    """
    with opened(gguf, "F32 cache", tokenizer) as backend:
        own = backend.gguf_tokenizer
        prompts = tuple(made_prompt(question, own, tokenizer) for question in questions)
        labels = sorted({label for prompt in prompts for label in prompt.labels})
        try:
            backend.next_token_logprobs([prompts[0].text], [labels])
        except TokenMismatchError as error:
            raise TokenMismatchError(
                f"{gguf.path.name} and transformers' model have different tokenizers: {error}"
            ) from error
    return prompts


def made_prompt(question: Question, own: GGUFTokenizer, tokenizer: Any) -> Prompt:
    text = rendered(question, own) if own.chat_template else plain(question, own)
    return Prompt(
        question=question,
        text=text,
        tokens=tuple(tokenizer.encode(text, add_special_tokens=False)),
        labels=tuple(label_token(label, own) for label in question.labels),
    )


def rendered(question: Question, tokenizer: Any) -> str:
    messages = [{"role": "user", "content": question.message}]
    return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))


def plain(question: Question, own: GGUFTokenizer) -> str:
    """For a model without a chat template; with BOS where its vocabulary asks for it."""
    first = own.decode(own.encode("x")[0])
    bos = own.bos_token if first == own.bos_token else ""
    return f"{bos}{question.message}\nAnswer:\n"


def label_token(label: str, own: GGUFTokenizer) -> int:
    """The label's token; SentencePiece may put a space's token before a digit's."""
    token = own.encode(label, add_special_tokens=False)[-1]
    if own.decode(token).strip() != label:
        raise TokenMismatchError(
            f"the label {label!r} is not one token of this GGUF's vocabulary, so it cannot be "
            "compared"
        )
    return token


def same_template(prompts: Sequence[Prompt], tokenizer: Any) -> bool | None:
    if not tokenizer.chat_template:
        return None
    return all(rendered(prompt.question, tokenizer) == prompt.text for prompt in prompts)


def llama_rows(gguf: Gguf, settings: str, prompts: Sequence[Prompt], tokenizer: Any) -> list[Row]:
    say(f"llama.cpp: {gguf.path.name}, {settings}")
    with opened(gguf, settings, tokenizer) as backend:
        return backend.next_token_distributions([prompt.text for prompt in prompts])


def reference_rows(reference: Reference, prompts: Sequence[Prompt], *, n_vocab: int) -> list[Row]:
    say("transformers reads the model in float32")
    rows = []
    for at, row in enumerate(reference.rows([prompt.tokens for prompt in prompts]), 1):
        if len(row) != n_vocab:
            raise Refused(
                f"transformers gives {len(row)} logits and the GGUF has {n_vocab} tokens: they are "
                "not the same model"
            )
        say(f"transformers: prompt {at} of {len(prompts)}")
        rows.append(row)
    return rows


def check_agreement(report: Report, at_most: float) -> None:
    """Raises Refused where a row with an F32 cache differs by more, or in the likeliest token."""
    for row in report.compared:
        found = row.agreement
        alike = found.argmax == len(report.prompts)
        if row.settings == "F32 cache" and not (alike and found.vocabulary.largest <= at_most):
            raise Refused(
                f"{row.gguf.path.name} and {report.source.name} in transformers have the same "
                f"likeliest token on {found.argmax} of {len(report.prompts)} prompts and differ by "
                f"{found.vocabulary.largest:.1e} at most, where {at_most:.1e} is allowed; rounded "
                "weights do that, and so does another model or a conversion that went wrong"
            )
