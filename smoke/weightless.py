"""A model that is hardly more than a vocabulary, so that llama-server loads it.

llama.cpp's sources have vocabularies without a model, and llama-server takes none without one.
Written by hand from the description of the format (ggml's docs/gguf.md): gguf-py makes an object of
every string, a minute and a half for the fifteen vocabularies; this takes seconds.
"""

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

UINT32, FLOAT32, STRING, ARRAY = 4, 6, 8, 9
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, UINT32: 4, 5: 4, FLOAT32: 4, 7: 1, 10: 8, 11: 8, 12: 8}
HEADER = struct.Struct("<4sIQQ")  # magic, version, tensors, entries
ALIGNMENT = 32
WIDTH = 32
TOKENS = b"tokenizer.ggml.tokens"

HYPERPARAMETERS = {
    "context_length": 512,
    "embedding_length": WIDTH,
    "block_count": 1,
    "feed_forward_length": WIDTH,
    "attention.head_count": 1,
    "rope.dimension_count": WIDTH,
}
VECTORS = ("attn_norm", "ffn_norm")
MATRICES = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")


def write_weightless(path: Path, vocabulary: Path) -> None:
    """Write the smallest llama, all of zeros, with the tokenizer of the GGUF `vocabulary`."""
    kept = [
        (key, raw)
        for key, raw in entries(vocabulary.read_bytes())
        if key.startswith(b"tokenizer.") or key == b"general.name"
    ]
    pieces = next(count(raw, len(key)) for key, raw in kept if key == TOKENS)
    head = [*(raw for _, raw in kept), *architecture()]
    tensors, size = tensor_table(pieces)
    start = HEADER.pack(b"GGUF", 3, len(tensors), len(head)) + b"".join((*head, *tensors))
    with path.open("wb") as file:
        file.write(start)
        file.truncate(-len(start) % ALIGNMENT + len(start) + size)


def entries(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The key, and the whole entry as it is, of each entry of a GGUF."""
    _, _, _, number = HEADER.unpack_from(data)
    at = HEADER.size
    for _ in range(number):
        begin = at
        at = after_string(data, begin)
        key = data[begin + 8 : at]
        (kind,) = struct.unpack_from("<I", data, at)
        at = after_value(data, at + 4, kind)
        yield key, data[begin:at]


def after_value(data: bytes, at: int, kind: int) -> int:
    if kind == STRING:
        return after_string(data, at)
    if kind != ARRAY:
        return at + SIZES[kind]
    inner, number = struct.unpack_from("<IQ", data, at)
    at += 12
    if inner != STRING:
        return at + int(number) * SIZES[inner]
    for _ in range(number):
        at = after_string(data, at)
    return at


def after_string(data: bytes, at: int) -> int:
    return at + 8 + int.from_bytes(data[at : at + 8], "little")


def count(raw: bytes, key: int) -> int:
    """How many elements an entry has that is an array and whose key is `key` bytes long."""
    return int(struct.unpack_from("<Q", raw, 8 + key + 4 + 4)[0])


def architecture() -> Iterator[bytes]:
    yield entry("general.architecture", STRING, text("llama"))
    yield entry("llama.attention.layer_norm_rms_epsilon", FLOAT32, struct.pack("<f", 1e-5))
    for name, value in HYPERPARAMETERS.items():
        yield entry(f"llama.{name}", UINT32, struct.pack("<I", value))


def entry(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def tensor_table(pieces: int) -> tuple[Sequence[bytes], int]:
    """What a GGUF says of each tensor, and the size in bytes of all of them. All are F32."""
    shapes = {"token_embd": (WIDTH, pieces), "output_norm": (WIDTH,)}
    shapes |= {f"blk.0.{name}": (WIDTH,) for name in VECTORS}
    shapes |= {f"blk.0.{name}": (WIDTH, WIDTH) for name in MATRICES}
    told, offset = [], 0
    for name, shape in shapes.items():
        sizes = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        told.append(text(f"{name}.weight") + sizes + struct.pack("<IQ", 0, offset))
        offset += 4 * WIDTH * (shape[1] if len(shape) == 2 else 1)
    return told, offset
