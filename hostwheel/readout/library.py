"""llama.cpp's C functions as the package llama_cpp binds them, each looked for by its name.

A version number does not say what a build can do (`0.3.16+cu124`, forks), its functions do.
"""

from importlib import import_module
from types import ModuleType
from typing import Any

from hostwheel.errors import MachineLacks

NEEDED = (
    "llama_batch_free",
    "llama_batch_init",
    "llama_context_default_params",
    "llama_decode",
    "llama_detokenize",
    "llama_free",
    "llama_get_logits_ith",
    "llama_get_memory",
    "llama_init_from_model",
    "llama_memory_clear",
    "llama_memory_seq_cp",
    "llama_memory_seq_rm",
    "llama_model_get_vocab",
    "llama_model_has_decoder",
    "llama_model_has_encoder",
    "llama_model_is_hybrid",
    "llama_model_is_recurrent",
    "llama_model_meta_val_str",
    "llama_model_n_ctx_train",
    "llama_model_n_swa",
    "llama_n_batch",
    "llama_n_ctx",
    "llama_n_seq_max",
    "llama_token_to_piece",
    "llama_tokenize",
    "llama_vocab_bos",
    "llama_vocab_eos",
    "llama_vocab_get_text",
    "llama_vocab_n_tokens",
    "llama_vocab_type",
)

NEEDED_FIELDS = ("kv_unified", "n_seq_max")  # of llama_context_params; ctypes would take any name

FROM = {
    "llama_cpp": "install a llama-cpp-python wheel that fits this machine",
    "transformers": "install it, or pass a tokenizer object, or none",
}


def package(name: str) -> ModuleType:
    """An installed package or module. Raises MachineLacks where there is none."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        top = name.split(".")[0]
        raise MachineLacks(f"{error.name} is not installed: {FROM[top]}") from error


def library() -> Any:
    """The module of the C functions. Raises MachineLacks that names each missing one."""
    found = package("llama_cpp.llama_cpp")
    missing = [name for name in NEEDED if not hasattr(found, name)]
    if not missing:
        params = found.llama_context_default_params()
        missing = [name for name in NEEDED_FIELDS if not hasattr(params, name)]
    if missing:
        version = getattr(package("llama_cpp"), "__version__", "of an unknown version")
        raise MachineLacks(
            f"llama_cpp {version} lacks {', '.join(missing)}, which the readout calls: install a "
            "newer llama-cpp-python (0.3.36 has them all)"
        )
    return found
