"""A stand-in for the package llama_cpp, with a KV cache that refuses wrong positions.

Tokens are bytes, and two pairs of letters that are one token. The logits after a sequence are a
function of the whole sequence, so a cell in a wrong place changes them or is refused. A pointer
that was freed fails the test.
"""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from tests.stub_cache import N_VOCAB, Cache, Pointer, logits_after

PAIRS = {b"th": 256, b"Ye": 257}
PIECES = {**{at: bytes([at]) for at in range(256)}, **{at: pair for pair, at in PAIRS.items()}}
METADATA = {"general.basename": "stub", "general.name": "A stub", "tokenizer.chat_template": "T"}
TEMPLATE_ENDS = "<assistant>"


def cut(data: bytes) -> list[int]:
    """Token ids: pairs first, from the left."""
    ids = []
    while data:
        pair = PAIRS.get(data[:2])
        ids.append(data[0] if pair is None else pair)
        data = data[1 if pair is None else 2 :]
    return ids


class Library(ModuleType):
    """`llama_cpp.llama_cpp`: the C functions. It counts, and can be told to fail."""

    llama_token = ctypes.c_int32

    def __init__(self) -> None:
        super().__init__("llama_cpp.llama_cpp")
        self.decoded = 0  # tokens
        self.batches: list[int] = []  # tokens in each
        self.rows_read = 0
        self.batches_alive = 0
        self.decode_code = 0
        self.not_a_number = False
        self.recurrent = False
        self.window = 0
        self.encoder = False
        self.vocab_type = 2
        self.metadata: dict[str, str] = dict(METADATA)
        self.on_decode: Callable[[], None] = lambda: None

    # the model and its context

    def llama_context_default_params(self) -> SimpleNamespace:
        return SimpleNamespace(
            n_ctx=512, n_batch=512, n_ubatch=512, n_seq_max=1, kv_unified=False,
            n_outputs_max=0, embeddings=False,
        )  # fmt: skip

    def llama_init_from_model(self, model: Pointer, params: SimpleNamespace) -> Pointer:
        model.use()
        cache = Cache(params.n_ctx, params.n_seq_max)
        return Pointer(model=model, cache=cache, params=params, rows={})

    def llama_free(self, context: Pointer) -> None:
        context.use().model.use()  # the model goes after it
        context.freed = True

    def llama_n_ctx(self, context: Pointer) -> int:
        return int(context.use().params.n_ctx)

    def llama_n_batch(self, context: Pointer) -> int:
        return int(context.use().params.n_batch)

    def llama_n_seq_max(self, context: Pointer) -> int:
        return int(context.use().params.n_seq_max)

    def llama_model_n_ctx_train(self, model: Pointer) -> int:
        model.use()
        return 64

    def llama_model_n_swa(self, model: Pointer) -> int:
        model.use()
        return self.window

    def llama_model_has_encoder(self, model: Pointer) -> bool:
        model.use()
        return self.encoder

    def llama_model_has_decoder(self, model: Pointer) -> bool:
        model.use()
        return True

    def llama_model_is_recurrent(self, model: Pointer) -> bool:
        model.use()
        return self.recurrent

    def llama_model_is_hybrid(self, model: Pointer) -> bool:
        model.use()
        return False

    def llama_model_meta_val_str(self, model: Pointer, key: bytes, buffer: Any, room: int) -> int:
        model.use()
        value = self.metadata.get(key.decode())
        if value is None:
            return -1
        buffer.value = value.encode()
        return len(value)

    # the KV cache

    def llama_get_memory(self, context: Pointer) -> Cache:
        cache = context.use().cache
        assert isinstance(cache, Cache)
        return cache

    def llama_memory_clear(self, cache: Cache, data: bool) -> None:
        assert not data, "the cache's memory need not be zeroed"
        cache.cells = []

    def llama_memory_seq_cp(self, cache: Cache, one: int, other: int, start: int, end: int) -> None:
        assert (start, end) == (-1, -1)
        assert not cache.sequence(other)
        for _, _, held in cache.cells:
            if one in held:
                held.add(other)

    def llama_memory_seq_rm(self, cache: Cache, number: int, start: int, end: int) -> bool:
        assert end == -1
        assert not (self.recurrent and start > 0)
        cache.remove(number, start)
        return True

    # decoding

    def llama_batch_init(self, size: int, embd: int, sequences: int) -> SimpleNamespace:
        assert embd == 0
        self.batches_alive += 1
        columns = {name: [None] * size for name in ("token", "pos", "n_seq_id", "logits")}
        seq_id = [[None] * sequences for _ in range(size)]
        return SimpleNamespace(n_tokens=0, seq_id=seq_id, **columns)

    def llama_batch_free(self, batch: SimpleNamespace) -> None:
        self.batches_alive -= 1

    def llama_decode(self, context: Pointer, batch: SimpleNamespace) -> int:
        self.on_decode()
        content = context.use()
        if self.decode_code:
            return self.decode_code
        assert 0 < batch.n_tokens <= content.params.n_batch
        if len(content.cache.cells) + batch.n_tokens > content.cache.size:
            return 1
        content.rows = {}
        for at in range(batch.n_tokens):
            assert batch.n_seq_id[at] == 1
            number = batch.seq_id[at][0]
            if not content.cache.add(batch.token[at], batch.pos[at], number):
                return -1
            if batch.logits[at]:
                content.rows[at] = logits_after(content.cache.sequence(number))
        self.decoded += batch.n_tokens
        self.batches.append(batch.n_tokens)
        return 0

    def llama_get_logits_ith(self, context: Pointer, at: int) -> Any:
        row = context.use().rows.get(at)
        if row is None:
            return None
        self.rows_read += 1
        if self.not_a_number:
            row[3] = np.nan
        return row.ctypes.data_as(ctypes.POINTER(ctypes.c_float))

    # the vocabulary

    def llama_model_get_vocab(self, model: Pointer) -> Pointer:
        model.use()
        return model

    def llama_vocab_n_tokens(self, vocab: Pointer) -> int:
        vocab.use()
        return N_VOCAB

    def llama_vocab_type(self, vocab: Pointer) -> int:
        vocab.use()
        return self.vocab_type

    def llama_vocab_bos(self, vocab: Pointer) -> int:
        vocab.use()
        return 1

    def llama_vocab_eos(self, vocab: Pointer) -> int:
        vocab.use()
        return -1

    def llama_vocab_get_text(self, vocab: Pointer, token: int) -> bytes:
        vocab.use()
        return PIECES[token]

    def llama_tokenize(
        self, vocab: Pointer, data: bytes, size: int, ids: Any, room: int, add: bool, special: bool
    ) -> int:
        vocab.use()
        assert len(data) == size
        assert special
        found = [1] * add + cut(data)
        if len(found) > room:
            return -len(found)
        ids[: len(found)] = found
        return len(found)

    def llama_detokenize(
        self, vocab: Pointer, ids: Any, count: int, buffer: Any, room: int, remove: bool, add: bool
    ) -> int:
        vocab.use()
        return put(b"".join(PIECES[token] for token in ids[:count]), buffer, room)

    def llama_token_to_piece(
        self, vocab: Pointer, token: int, buffer: Any, room: int, lstrip: int, special: bool
    ) -> int:
        vocab.use()
        assert (lstrip, special) == (0, True)
        return put(PIECES[token], buffer, room)


def put(text: bytes, buffer: Any, room: int) -> int:
    if len(text) > room:
        return -len(text)
    buffer[: len(text)] = text
    return len(text)


class Formatter:
    """`Jinja2ChatFormatter`, which is slow to make."""

    made = 0

    def __init__(
        self, *, template: str, bos_token: str, eos_token: str, add_generation_prompt: bool
    ) -> None:
        type(self).made += 1
        self.template, self.asks = template, add_generation_prompt

    def __call__(
        self, *, messages: Sequence[Mapping[str, str]], **variables: Any
    ) -> SimpleNamespace:
        turns = "".join(f"<{turn['role']}>{turn['content']}" for turn in messages)
        more = "".join(f"[{name}={value}]" for name, value in variables.items())
        return SimpleNamespace(prompt=self.template + more + turns + TEMPLATE_ENDS * self.asks)


class Llama:
    """`llama_cpp.Llama`, as far as a readout uses it."""

    def __init__(
        self,
        model_path: str,
        *,
        n_ctx: int = 512,
        n_batch: int = 512,
        n_ubatch: int = 512,
        n_gpu_layers: int = 0,
        flash_attn: bool = False,
        type_k: int | None = None,
        type_v: int | None = None,
        embedding: bool = False,
        lora_path: str | None = None,
        vocab_only: bool = False,
        verbose: bool = True,
        **ignored: Any,
    ) -> None:
        lib = self.lib
        self.settings = {"flash_attn": flash_attn, "type_k": type_k, "type_v": type_v}
        self.context_params = lib.llama_context_default_params()
        self.context_params.n_ctx = n_ctx
        self.context_params.n_batch = min(n_ctx, n_batch)
        self.context_params.embeddings = embedding
        self.model_params = SimpleNamespace(vocab_only=vocab_only)
        self._model: Pointer | None = Pointer()
        self._ctx: Pointer | None = lib.llama_init_from_model(self._model, self.context_params)
        self.resets = 0
        self.closes = 0
        self.made.append(self)

    lib: Library
    made: list["Llama"]

    @property
    def model(self) -> Pointer | None:
        return self._model

    @property
    def ctx(self) -> Pointer | None:
        return self._ctx

    def reset(self) -> None:
        self.resets += 1

    def close(self) -> None:
        self.closes += 1
        if self._model and self._ctx:
            self.lib.llama_free(self._ctx)
            self._model.freed = True
        self._model = self._ctx = None


def modules() -> tuple[Library, dict[str, ModuleType]]:
    """The stand-in, and what to put into sys.modules for it."""
    package, chat = ModuleType("llama_cpp"), ModuleType("llama_cpp.llama_chat_format")
    lib = Library()
    llama = type("Llama", (Llama,), {"lib": lib, "made": []})
    formatter = type("Jinja2ChatFormatter", (Formatter,), {"made": 0})
    package.__dict__.update(Llama=llama, __version__="0.3.16+cu124", llama_cpp=lib)
    chat.__dict__.update(Jinja2ChatFormatter=formatter)
    return lib, {"llama_cpp": package, lib.__name__: lib, chat.__name__: chat}
