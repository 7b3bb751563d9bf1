"""The suite's own model: a llama of nine million weights, with a vocabulary that people use.

Small enough to compute with numpy and under an emulator. Its rows of 256 are what K-quants need.
"""

from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Protocol

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter
from numpy.typing import NDArray

VOCABULARY = "models/ggml-vocab-llama-spm.gguf"  # in llama.cpp's sources: 32,000 pieces
WIDTH, INNER, LAYERS, CONTEXT = 256, 512, 2, 2048
HEADS, KV_HEADS, HEAD = 4, 2, 64
EPSILON, ROPE_BASE = 1e-5, 10000.0

# Standard deviation of one output for inputs of size 1. With these the logits spread like a real
# model's, attention picks a few tokens, and every layer adds as much as the embedding does.
GAINS = {
    "attn_q": 1.0,
    "attn_k": 1.0,
    "attn_v": 1.0,
    "attn_output": 0.4,
    "ffn_gate": 1.4,
    "ffn_up": 1.4,
    "ffn_down": 0.15,
    "token_embd": 2.4,
}
SHAPES = {
    "attn_q": (HEADS * HEAD, WIDTH),
    "attn_k": (KV_HEADS * HEAD, WIDTH),
    "attn_v": (KV_HEADS * HEAD, WIDTH),
    "attn_output": (WIDTH, HEADS * HEAD),
    "ffn_gate": (INNER, WIDTH),
    "ffn_up": (INNER, WIDTH),
    "ffn_down": (WIDTH, INNER),
}


class Programs(Protocol):
    """An installed wheel, whose llama-quantize is used."""

    def run(self, *argv: str | Path) -> CompletedProcess[str]: ...


def quantized(installed: Programs, sources: Path, folder: Path, kind: str) -> Path:
    """The tiny model in `folder` with every matrix of type `kind`, such as Q4_K; made when missing.

    `kind` F32 is the model itself. Raises RuntimeError with what llama-quantize said.
    """
    original, wanted = folder / "tiny-F32.gguf", folder / f"tiny-{kind}.gguf"
    if not original.exists():
        write_model(original, sources / VOCABULARY)
    if not wanted.exists():
        done = installed.run("llama-quantize", "--pure", original, wanted, kind)
        if done.returncode:
            wanted.unlink(missing_ok=True)
            raise RuntimeError(f"llama-quantize {kind}: {done.stdout}{done.stderr}")
    return wanted


def write_model(path: Path, vocabulary: Path) -> None:
    """Write the F32 model with the tokenizer of `vocabulary`, a GGUF that holds nothing else."""
    reader = GGUFReader(vocabulary)
    writer = GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(HEAD)
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_layer_norm_rms_eps(EPSILON)
    copy_tokenizer(reader, writer)
    for name, values in tensors(len(reader.fields["tokenizer.ggml.tokens"].data)):
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def copy_tokenizer(reader: GGUFReader, writer: GGUFWriter) -> None:
    for name, field in reader.fields.items():
        if name.startswith("tokenizer."):
            inner = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), field.types[0], inner)


def tensors(pieces: int) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """(name, values) of every tensor, the same ones each time; rows are outputs."""
    random = np.random.default_rng(20)
    embedding = random.standard_normal((pieces, WIDTH)) * GAINS["token_embd"] / np.sqrt(WIDTH)
    yield "token_embd.weight", embedding.astype(np.float32)
    yield "output_norm.weight", norm(random)
    for layer in range(LAYERS):
        for name, shape in SHAPES.items():
            yield f"blk.{layer}.{name}.weight", matrix(random, shape, GAINS[name])
        yield f"blk.{layer}.attn_norm.weight", norm(random)
        yield f"blk.{layer}.ffn_norm.weight", norm(random)


def matrix(random: np.random.Generator, shape: tuple[int, int], gain: float) -> NDArray[np.float32]:
    """Normal numbers, each 16 of a row with a size of their own between 1/3 and 3.

    Blocks of equal size would hide a kernel that takes the scale of a neighbouring block.
    """
    rows, columns = shape
    sizes = np.exp2(random.uniform(-1.5, 1.5, (rows, columns // 16, 1)))
    values = random.standard_normal((rows, columns // 16, 16)) * sizes
    scaled = values.reshape(shape) * gain / np.sqrt(columns * np.mean(sizes**2))
    return np.asarray(scaled, dtype=np.float32)


def norm(random: np.random.Generator) -> NDArray[np.float32]:
    return random.uniform(0.5, 1.5, WIDTH).astype(np.float32)
