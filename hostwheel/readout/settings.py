"""The settings of a model of our own: defaults, and what llama.cpp would die of or ignore."""

from collections.abc import Mapping
from inspect import signature
from typing import Any

from hostwheel.readout.library import package

F32 = 0  # GGML_TYPE_F32
EXACT: Mapping[str, Any] = {"flash_attn": False, "type_k": F32, "type_v": F32}
SIZES: Mapping[str, int] = {"n_ctx": 4096, "n_batch": 512, "n_ubatch": 512, "n_gpu_layers": 0}
DEFAULTS: Mapping[str, Any] = {"verbose": False, **SIZES, **EXACT}
# More than any known model has. It is an uint32_t in C, where 2**32 + 512 would become 512.
LONGEST_CONTEXT = 1 << 24
UNFIT = ("draft_model", "embedding", "logits_all", "lora_path", "vocab_only")
FLOATS = {"F32": F32, "F16": 1, "BF16": 30}
# kv_cache_types in common/arg.cpp of llama.cpp. ggml aborts, or divides by zero, on others.
QUANTIZED = {"Q8_0": 8, "Q4_0": 2, "Q4_1": 3, "IQ4_NL": 20, "Q5_0": 6, "Q5_1": 7}
CACHE_TYPES = FLOATS | QUANTIZED


def checked_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """`settings` over the defaults. Raises ValueError."""
    refuse_unfit(settings)
    wanted = {**DEFAULTS, **settings}
    check_sizes(wanted)
    check_cache(wanted)
    return wanted


def refuse_unfit(settings: Mapping[str, Any]) -> None:
    """Refuse what `Llama` would ignore, and what a readout cannot use. Raises ValueError."""
    known = signature(package("llama_cpp").Llama.__init__).parameters
    for name, value in settings.items():
        if name not in known:
            raise ValueError(f"Llama has no argument {name!r}; it would ignore it")
        if value and name in UNFIT:
            raise ValueError(
                f"{name} does not go with a readout from model_path; if you need it, make the "
                "Llama yourself and pass it as llm="
            )


def check_sizes(wanted: Mapping[str, Any]) -> None:
    if not 0 <= wanted["n_ctx"] <= LONGEST_CONTEXT:
        raise ValueError(
            f"n_ctx={wanted['n_ctx']}: a number of tokens is expected, {LONGEST_CONTEXT} at most, "
            "or 0 for the model's own"
        )
    for name in ("n_batch", "n_ubatch"):
        if wanted[name] < 1:
            raise ValueError(f"{name}={wanted[name]}: a number of tokens is expected, at least 1")


def check_cache(wanted: Mapping[str, Any]) -> None:
    """Types that a KV cache can have. None is `Llama`'s own default, F16."""
    for name in ("type_k", "type_v"):
        value = wanted[name]
        if value is not None and (type(value) is bool or value not in CACHE_TYPES.values()):
            known = ", ".join(f"{number} ({name})" for name, number in CACHE_TYPES.items())
            raise ValueError(f"{name}={value!r} is no type of a KV cache; llama.cpp has {known}")
    if wanted["type_v"] in QUANTIZED.values() and not wanted["flash_attn"]:
        raise ValueError(
            f"type_v={wanted['type_v']}: a quantized V cache needs FlashAttention; pass "
            "flash_attn=True, or a type_v of F32, F16 or BF16 (0, 1, 30)"
        )
