"""The tokenizer and the chat template that a GGUF carries, in the manner of Hugging Face's."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from operator import index
from threading import RLock
from typing import Any, Literal, overload

from hostwheel.readout.gguf_file import load_llama
from hostwheel.readout.library import library, package
from hostwheel.readout.vocabulary import Vocabulary

Message = Mapping[str, Any]
UNKNOWN = ("chat_template", "continue_final_message")  # Hugging Face's; no variables of a template
LONGEST_LABEL = 48  # characters; no vocabulary that we know has a longer word


class GGUFTokenizer:
    """encode, decode and apply_chat_template of a GGUF, without transformers.

    It belongs to a loaded model and raises RuntimeError once that is closed. `from_file` loads the
    vocabulary alone.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._formatters: dict[tuple[str, bool], Any] = {}
        self._answers: dict[str, int | None] = {}
        self.bos_token = vocabulary.bos()
        self.eos_token = vocabulary.eos()
        self.chat_template = vocabulary.metadata("tokenizer.chat_template")
        self._tool_template = vocabulary.metadata("tokenizer.chat_template.tool_use")
        self._space_first = vocabulary.puts_a_space_first()

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> GGUFTokenizer:
        """The tokenizer of a GGUF file whose weights are not read. Raises ValueError."""
        llama = load_llama(os.fspath(path), vocab_only=True, n_ctx=1, verbose=False)
        return cls(Vocabulary(library(), lambda: llama.model, RLock()))

    def __len__(self) -> int:
        return self._vocabulary.size

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """Token ids of `text`; names of special tokens in it stand for these tokens.

        SentencePiece vocabularies put a space before a text's first word, so that "A" would be the
        token "▁A" whatever comes before it. There, and without special tokens, a word that is one
        token as an answer after the chat template is *that* token: the one that the model gives.
        """
        if self._space_first and not add_special_tokens:
            answer = self._answer(text)
            if answer is not None:
                return [answer]
        return list(self._vocabulary.tokenize(text, add_special=add_special_tokens))

    def decode(self, ids: int | Iterable[int], skip_special_tokens: bool = False) -> str:
        """The text of token ids (or of one)."""
        tokens = tuple(map(index, ids)) if isinstance(ids, Iterable) else (index(ids),)
        size = len(self)
        wrong = [token for token in tokens if not 0 <= token < size]
        if wrong:
            raise ValueError(f"token id {wrong[0]} is outside the vocabulary of {size}")
        return self._vocabulary.detokenize(tokens, skip_special=skip_special_tokens)

    @overload
    def apply_chat_template(
        self,
        conversation: Sequence[Message],
        *,
        tokenize: Literal[False],
        add_generation_prompt: bool = False,
        **variables: Any,
    ) -> str: ...

    @overload
    def apply_chat_template(
        self,
        conversation: Sequence[Message],
        *,
        tokenize: Literal[True] = True,
        add_generation_prompt: bool = False,
        **variables: Any,
    ) -> list[int]: ...

    def apply_chat_template(
        self,
        conversation: Sequence[Message],
        *,
        tokenize: bool = True,
        add_generation_prompt: bool = False,
        **variables: Any,
    ) -> str | list[int]:
        """Render a conversation with the GGUF's own template, as text or as token ids.

        `variables` (tools, documents, enable_thinking, …) go to the template. Raises ValueError
        where the GGUF has no template, for chat_template and continue_final_message (Hugging
        Face's), and whatever the template raises.
        """
        for name in UNKNOWN:
            if variables.get(name):
                raise ValueError(
                    f"apply_chat_template does not know {name}: it renders with the GGUF's own "
                    "template to the end of the last turn. Pass a Hugging Face tokenizer to the "
                    "backend (tokenizer=) if you need it"
                )
        formatter = self._formatter(bool(variables.get("tools")), add_generation_prompt)
        text = str(formatter(messages=list(conversation), **variables).prompt)
        return list(self._vocabulary.tokenize(text, add_special=False)) if tokenize else text

    def _formatter(self, tools: bool, add_generation_prompt: bool) -> Any:
        """llama-cpp-python's own formatter; the template is compiled once for each setting."""
        template = (self._tool_template if tools else None) or self.chat_template
        if not template:
            raise ValueError("this GGUF has no chat template (tokenizer.chat_template)")
        setting = (template, add_generation_prompt)
        if setting not in self._formatters:
            self._formatters[setting] = package("llama_cpp.llama_chat_format").Jinja2ChatFormatter(
                template=template,
                bos_token=self.bos_token,
                eos_token=self.eos_token,
                add_generation_prompt=add_generation_prompt,
            )
        return self._formatters[setting]

    def _answer(self, text: str) -> int | None:
        if not self.chat_template or len(text) > LONGEST_LABEL or text != text.strip():
            return None
        if text not in self._answers:
            self._answers[text] = self._token_after_the_template(text)
        return self._answers[text]

    def _token_after_the_template(self, label: str) -> int | None:
        """The one token with which the assistant's turn begins when it says `label`."""
        turn = ({"role": "user", "content": "?"}, {"role": "assistant", "content": label})
        asked = self.apply_chat_template(turn[:1], tokenize=False, add_generation_prompt=True)
        said = self.apply_chat_template(turn, tokenize=False)
        if not said.startswith(asked) or not said[len(asked) :].lstrip().startswith(label):
            said = asked + label  # the template shows past answers in another way
        end = said.index(label, len(asked)) + len(label)
        before = self._vocabulary.tokenize(asked, add_special=False)
        after = self._vocabulary.tokenize(said[:end], add_special=False)
        if after[:-1] != before or self._vocabulary.piece(after[-1]).strip() != label:
            return None
        return after[-1]
