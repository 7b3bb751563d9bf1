"""The vocabulary inside a loaded model: text to token ids and back, and the GGUF's metadata."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import create_string_buffer
from threading import RLock
from typing import Any

LONGEST_METADATA = 1 << 20  # bytes; chat templates are tens of thousands
NO_TOKEN = -1  # LLAMA_TOKEN_NULL
SENTENCEPIECE = 1  # LLAMA_VOCAB_TYPE_SPM


class Vocabulary:
    """`model` gives the pointer to the model, and raises once that is freed.

    `lock` is the one that whoever frees the model takes.
    """

    def __init__(self, lib: Any, model: Callable[[], Any], lock: RLock) -> None:
        self._lib = lib
        self._model = model
        self._lock = lock

    @contextmanager
    def _held(self) -> Iterator[Any]:
        """The pointer to the vocabulary, which stays good inside the block."""
        with self._lock:
            yield self._lib.llama_model_get_vocab(self._model())

    @property
    def size(self) -> int:
        """How many tokens it has."""
        with self._held() as vocab:
            return int(self._lib.llama_vocab_n_tokens(vocab))

    def tokenize(self, text: str, *, add_special: bool) -> tuple[int, ...]:
        """Token ids of a text in which the names of special tokens stand for these tokens.

        `add_special` puts those around it that the vocabulary asks for (BOS, EOS).
        """
        data = text.encode()
        room = len(data) + 8
        with self._held() as vocab:
            while True:
                ids = (self._lib.llama_token * room)()
                count = self._lib.llama_tokenize(
                    vocab, data, len(data), ids, room, add_special, True
                )
                if count >= 0:
                    return tuple(ids[:count])
                if -count <= room:
                    raise RuntimeError(f"llama_tokenize failed with {count} on {len(data)} bytes")
                room = -count

    def detokenize(self, ids: Sequence[int], *, skip_special: bool) -> str:
        """The text of token ids; bytes that are not UTF-8 become U+FFFD."""
        call = self._lib.llama_detokenize
        with self._held() as vocab:
            if skip_special and ids and ids[0] == self._lib.llama_vocab_bos(vocab):
                ids = ids[1:]  # llama.cpp would keep the space that the vocabulary puts after BOS
            tokens, count = (self._lib.llama_token * len(ids))(*ids), len(ids)
            return read_text(
                lambda buffer, room: call(
                    vocab, tokens, count, buffer, room, False, not skip_special
                )
            )

    def piece(self, token: int) -> str:
        """The text that one token stands for, white space included."""
        call = self._lib.llama_token_to_piece
        with self._held() as vocab:
            return read_text(lambda buffer, room: call(vocab, token, buffer, room, 0, True))

    def bos(self) -> str:
        return self._special(self._lib.llama_vocab_bos)

    def eos(self) -> str:
        return self._special(self._lib.llama_vocab_eos)

    def _special(self, which: Callable[[Any], int]) -> str:
        with self._held() as vocab:
            token = which(vocab)
            if token == NO_TOKEN:
                return ""
            return str(self._lib.llama_vocab_get_text(vocab, token).decode())

    def metadata(self, key: str) -> str | None:
        """A value of the GGUF's head as text, or None where it has no such key."""
        buffer = create_string_buffer(LONGEST_METADATA)
        with self._held():
            length = self._lib.llama_model_meta_val_str(
                self._model(), key.encode(), buffer, LONGEST_METADATA
            )
        return None if length < 0 else buffer.value.decode()

    def puts_a_space_first(self) -> bool:
        """Whether a text's first word gets a space (SentencePiece, where the GGUF says not no)."""
        with self._held() as vocab:
            if self._lib.llama_vocab_type(vocab) != SENTENCEPIECE:
                return False
        return self.metadata("tokenizer.ggml.add_space_prefix") != "false"


def read_text(write: Callable[[Any, int], int]) -> str:
    """Call a C function that fills a buffer, or returns minus the size that it would need."""
    room = 256
    while True:
        buffer = create_string_buffer(room)
        length = write(buffer, room)
        if length >= 0:
            return buffer.raw[:length].decode(errors="replace")
        room = -length
