"""A llama's forward pass in numpy and float64, whole matrices at a time.

It shares no code and no arithmetic with the engine. Weights come from gguf-py's dequantization.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from gguf import GGUFReader, dequantize
from numpy.typing import NDArray

from smoke.tinymodel import EPSILON, HEAD, HEADS, KV_HEADS, LAYERS, ROPE_BASE

Array = NDArray[np.float64]
Weights = Mapping[str, Array]


def load(path: Path) -> Weights:
    """Every tensor of a GGUF by name, as float64, rows first."""
    return {
        tensor.name: dequantize(tensor.data, tensor.tensor_type).astype(np.float64)
        for tensor in GGUFReader(path).tensors
    }


def last_logits(weights: Weights, tokens: Sequence[int]) -> Array:
    """Logits after the last token: (pieces,). The output matrix is the embedding's."""
    x = weights["token_embd.weight"][list(tokens)]
    for layer in range(LAYERS):
        of = {
            name.split(".")[2]: w for name, w in weights.items() if name.startswith(f"blk.{layer}.")
        }
        x = x + attention(of, rms_norm(x, of["attn_norm"]))
        x = x + swiglu(of, rms_norm(x, of["ffn_norm"]))
    return rms_norm(x[-1], weights["output_norm.weight"]) @ weights["token_embd.weight"].T


def rms_norm(x: Array, weight: Array) -> Array:
    return np.asarray(x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + EPSILON) * weight)


def swiglu(of: Weights, x: Array) -> Array:
    gate = x @ of["ffn_gate"].T
    return np.asarray(gate / (1 + np.exp(-gate)) * (x @ of["ffn_up"].T) @ of["ffn_down"].T)


def attention(of: Weights, x: Array) -> Array:
    """Causal, with HEADS / KV_HEADS query heads to each key head. x: (tokens, width)."""
    queries = rotate(heads(x @ of["attn_q"].T, HEADS))
    keys = rotate(heads(x @ of["attn_k"].T, KV_HEADS))
    values = heads(x @ of["attn_v"].T, KV_HEADS)
    shared = HEADS // KV_HEADS
    scores = queries @ np.repeat(keys, shared, axis=0).swapaxes(1, 2) / np.sqrt(HEAD)
    scores[:, np.triu(np.ones(scores.shape[1:], dtype=bool), k=1)] = -np.inf
    seen = softmax(scores) @ np.repeat(values, shared, axis=0)
    return np.asarray(seen.swapaxes(0, 1).reshape(len(x), HEADS * HEAD) @ of["attn_output"].T)


def heads(x: Array, count: int) -> Array:
    """(tokens, count * HEAD) as (count, tokens, HEAD)."""
    return x.reshape(len(x), count, HEAD).swapaxes(0, 1)


def rotate(x: Array) -> Array:
    """Rotary positions from 0 on: neighbours (2i, 2i+1) turn by position / base^(2i/HEAD)."""
    angles = np.outer(np.arange(x.shape[1]), ROPE_BASE ** (-np.arange(0, HEAD, 2) / HEAD))
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = np.empty_like(x)
    turned[..., 0::2] = even * np.cos(angles) - odd * np.sin(angles)
    turned[..., 1::2] = even * np.sin(angles) + odd * np.cos(angles)
    return turned


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))
