"""What the backend refuses at the call, its settings and its name, with the stand-in."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hostwheel.errors import MachineLacks
from hostwheel.readout import LlamaCppBackend
from tests.stub_cache import N_VOCAB
from tests.stub_llama import Library

pytest_plugins = ("tests.stubbed",)


def test_one_model_and_only_one(llama: Any, model: Path) -> None:
    with pytest.raises(ValueError, match="either model_path or llm"):
        LlamaCppBackend()
    with pytest.raises(ValueError, match="either model_path or llm"):
        LlamaCppBackend(model, llm=llama)


@pytest.mark.parametrize("name", ["n_threads", "n_ctx", "n_batch", "n_gpu_layers"])
def test_a_llama_that_is_made_takes_no_settings(llama: Any, name: str) -> None:
    with pytest.raises(ValueError, match=f"already made, with its own {name}$"):
        LlamaCppBackend(**{"llm": llama, name: 2})


def test_sizes_that_are_not_passed_are_the_documented_ones(lib: Library, model: Path) -> None:
    backend = LlamaCppBackend(model)
    assert (backend.n_ctx, backend.n_batch) == (4096, 512)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_thread": 2}, "no argument 'n_thread'"),
        ({"embedding": True}, "embedding does not go"),
        ({"lora_path": "x"}, "pass it as llm="),
        *(({"n_ctx": number}, f"n_ctx={number}") for number in (-1, 2**24 + 1, 2**32 + 512)),
        ({"n_batch": 0}, "n_batch=0"),
        ({"n_ubatch": -1}, "n_ubatch=-1"),
        *(
            ({"type_k": number}, rf"type_k={number} .* 8 \(Q8_0\)")
            for number in (-1, 4, 16, 31, 999)
        ),
        ({"type_v": 999, "flash_attn": True}, "type_v=999 is no type"),
        ({"type_k": True}, "type_k=True is no type"),
        *(({"type_v": number}, "V cache needs FlashAttention") for number in (8, 20)),
    ],
)
def test_settings_that_would_be_ignored_or_wrong(
    lib: Library, model: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        LlamaCppBackend(model, **settings)


def test_unfit_models_are_refused(lib: Library, package: ModuleType, model: Path) -> None:
    with pytest.raises(ValueError, match="no model file"):
        LlamaCppBackend(model.with_name("missing.gguf"))
    for how in ("embedding", "vocab_only"):
        with pytest.raises(ValueError, match=f"{how}=True"):
            LlamaCppBackend(llm=package.Llama("x", **{how: True}))
    with pytest.raises(ValueError, match=r"takes a llama_cpp\.Llama, not str"):
        LlamaCppBackend(llm="model.gguf")
    lib.encoder = True
    with pytest.raises(ValueError, match="no plain decoder"):
        LlamaCppBackend(model)
    assert package.Llama.made[-1].closes == 1


@pytest.mark.parametrize(
    ("prompts", "ids", "message"),
    [
        (["a", "b"], [[1]], "2 prompts, but 1 lists"),
        (["a"], [[1], [2]], "1 prompts, but 2 lists"),
        (["a", ""], [[1], [1]], "prompt 1 is empty"),
        ("ab", [[1], [2]], "one text"),
        ([b"ab"], [[1]], "bytes, not a text"),
        (["a", "a" * 201], [[1]] * 2, "prompt 1 of 201 tokens is longer than the context of 200"),
        (["a", "b"], [[1], [1, N_VOCAB]], r"token_ids\[1\]: .* 258 is outside .* of 258"),
        (["a"], [[True]], "not True"),
        (["a"], [{1, 2}], r"token_ids\[0\] is a set"),
        ({"a", "b"}, [[1], [2]], "prompts is a set"),
        (["a"], [[-1]], "-1 is outside"),
        (["a"], [[1.0]], "not 1.0"),
        (["a"], ["ab"], "not 'ab'"),
        (["a"], [7], "not 7"),
    ],
)
def test_wrong_calls_are_refused_before_anything_is_decoded(
    backend: LlamaCppBackend, lib: Library, prompts: Any, ids: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        backend.next_token_logprobs(prompts, ids)
    assert lib.decoded == 0


@pytest.mark.parametrize(
    ("groups", "ids", "message"),
    [
        ([("a", ["b"])], [], "1 groups, but 0 lists"),
        ([("", ["b", ""])], [[1]], "prompt 1 of group 0 is empty"),
        ([("a", "bc")], [[1]], "suffixes is one text"),
        (["ab"], [[1]], "group 0 is not a pair"),
        ([("a", ["b"], ["c"])], [[1]], "group 0 is not a pair"),
        ([("a", []), ("a" * 199, ["b", "cd"])], [[1]] * 2, "prompt 1 of group 1 of 201 tokens is"),
        ([("a", frozenset({"b"}))], [[1]], "suffixes is a set"),
    ],
)
def test_wrong_groups_are_refused_before_anything_is_decoded(
    backend: LlamaCppBackend, lib: Library, groups: Any, ids: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        backend.score_shared(groups, ids)
    assert lib.decoded == 0


def test_a_prompt_that_fills_the_context_is_read(backend: LlamaCppBackend) -> None:
    text = "a" * 200
    (row,) = backend.next_token_logprobs([text], [[1, 2]])
    assert row.shape == (2,)


def test_exact_settings_are_the_defaults_and_can_be_changed(
    package: ModuleType, lib: Library, model: Path
) -> None:
    LlamaCppBackend(model)
    LlamaCppBackend(model, flash_attn=True, type_k=1)
    exact, changed = (llama.settings for llama in package.Llama.made)
    assert exact == {"flash_attn": False, "type_k": 0, "type_v": 0}
    assert changed == {"flash_attn": True, "type_k": 1, "type_v": 0}


@pytest.mark.parametrize("number", [None, 0, 1, 2, 3, 6, 7, 8, 20, 30])
def test_each_type_of_a_kv_cache_is_taken(
    package: ModuleType, lib: Library, model: Path, number: int | None
) -> None:
    LlamaCppBackend(model, flash_attn=True, type_k=number, type_v=number)
    LlamaCppBackend(model, type_k=number)  # a quantized K cache does without
    assert [llama.settings["type_k"] for llama in package.Llama.made] == [number] * 2


def test_n_ctx_0_is_the_models_own(lib: Library, model: Path) -> None:
    assert LlamaCppBackend(model, n_ctx=0).n_ctx == 64


def test_the_name_is_the_ggufs_own(lib: Library, model: Path) -> None:
    assert LlamaCppBackend(model).name == "stub"
    assert LlamaCppBackend(model, name="mine").name == "mine"
    del lib.metadata["general.basename"]
    assert LlamaCppBackend(model).name == "A stub"
    del lib.metadata["general.name"]
    assert LlamaCppBackend(model).name == "unnamed"


def test_a_missing_function_or_field_is_named_and_no_version_is_read(
    lib: Library, package: ModuleType, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package.__dict__["__version__"] = "0.3.16rc1"
    with monkeypatch.context() as patch:
        patch.delattr(Library, "llama_memory_seq_cp")
        with pytest.raises(MachineLacks, match=r"0\.3\.16rc1 lacks llama_memory_seq_cp"):
            LlamaCppBackend(model)
    params = lib.llama_context_default_params()
    del params.kv_unified
    monkeypatch.setattr(lib, "llama_context_default_params", lambda: params)
    with pytest.raises(MachineLacks, match="lacks kv_unified"):
        LlamaCppBackend(model)


def test_without_llama_cpp_it_says_what_to_install(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    with pytest.raises(MachineLacks, match="install a llama-cpp-python wheel"):
        LlamaCppBackend(model)
