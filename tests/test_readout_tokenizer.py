"""The GGUF's tokenizer over the stand-in: templates, labels, wrong ids."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hostwheel.errors import HostwheelError
from hostwheel.readout import GGUFTokenizer, LlamaCppBackend, TokenMismatchError
from tests.stub_llama import TEMPLATE_ENDS, Library

pytest_plugins = ("tests.stubbed",)

TURNS = ({"role": "system", "content": "s"}, {"role": "user", "content": "the"})


@pytest.fixture
def tokenizer(lib: Library, model: Path) -> GGUFTokenizer:
    return GGUFTokenizer.from_file(model)


def test_text_and_ids(tokenizer: GGUFTokenizer) -> None:
    assert tokenizer.encode("the", add_special_tokens=False) == [256, ord("e")]
    assert tokenizer.encode("the") == [1, 256, ord("e")]
    assert tokenizer.decode([1, 256, ord("e")]) == "\x01the"
    assert tokenizer.decode([1, 256, ord("e")], skip_special_tokens=True) == "the"
    assert tokenizer.decode(256) == "th"
    assert tokenizer.decode([0xC3]) == "\ufffd"
    assert tokenizer.decode([]) == ""
    long = "long " * 200
    assert tokenizer.decode(tokenizer.encode(long, add_special_tokens=False)) == long
    assert len(tokenizer) == 258


@pytest.mark.parametrize("wrong", [258, -1])
def test_an_id_outside_the_vocabulary_never_reaches_llama_cpp(
    tokenizer: GGUFTokenizer, wrong: int
) -> None:
    with pytest.raises(ValueError, match=f"{wrong} is outside the vocabulary of 258"):
        tokenizer.decode([1, wrong])


def test_a_template_is_compiled_once_for_each_setting(
    tokenizer: GGUFTokenizer, stand_ins: dict[str, ModuleType]
) -> None:
    asked, told = (
        [
            tokenizer.apply_chat_template(TURNS, tokenize=False, add_generation_prompt=ask)
            for _ in range(3)
        ]
        for ask in (True, False)
    )
    assert set(told) == {"T<system>s<user>the"}
    assert set(asked) == {"T<system>s<user>the" + TEMPLATE_ENDS}
    assert stand_ins["llama_cpp.llama_chat_format"].Jinja2ChatFormatter.made == 2


def test_variables_reach_the_template(tokenizer: GGUFTokenizer) -> None:
    text = tokenizer.apply_chat_template(TURNS, tokenize=False, enable_thinking=False)
    assert text == "T[enable_thinking=False]<system>s<user>the"


def test_a_template_for_tools_is_taken_where_there_are_tools(lib: Library, model: Path) -> None:
    lib.metadata["tokenizer.chat_template.tool_use"] = "U"
    tokenizer = GGUFTokenizer.from_file(model)
    with_tools = tokenizer.apply_chat_template(TURNS, tokenize=False, tools=["f"])
    assert with_tools.startswith("U[tools=['f']]")
    without = tokenizer.apply_chat_template(TURNS, tokenize=False, tools=None)
    assert without.startswith("T")


def test_ids_are_the_default_as_with_hugging_face(tokenizer: GGUFTokenizer) -> None:
    ids = tokenizer.apply_chat_template(TURNS)
    assert tokenizer.decode(ids) == "T<system>s<user>the"


def test_without_a_template_it_says_so(lib: Library, model: Path) -> None:
    del lib.metadata["tokenizer.chat_template"]
    tokenizer = GGUFTokenizer.from_file(model)
    assert tokenizer.chat_template is None
    with pytest.raises(ValueError, match="no chat template"):
        tokenizer.apply_chat_template(TURNS)


def test_a_template_may_be_as_long_as_it_likes(lib: Library, model: Path) -> None:
    lib.metadata["tokenizer.chat_template"] = "x" * 100_000
    assert GGUFTokenizer.from_file(model).chat_template == "x" * 100_000


def test_sentencepiece_labels_are_looked_up_after_the_template(
    lib: Library, model: Path, stand_ins: dict[str, ModuleType]
) -> None:
    lib.vocab_type = 1
    tokenizer = GGUFTokenizer.from_file(model)
    for _ in range(3):
        assert tokenizer.encode("Ye", add_special_tokens=False) == [257]
        assert tokenizer.encode("Yes", add_special_tokens=False) == [257, ord("s")]
    assert stand_ins["llama_cpp.llama_chat_format"].Jinja2ChatFormatter.made == 2
    lib.metadata["tokenizer.ggml.add_space_prefix"] = "false"
    plain = GGUFTokenizer.from_file(model)
    assert plain.encode("Ye", add_special_tokens=False) == [257]
    assert stand_ins["llama_cpp.llama_chat_format"].Jinja2ChatFormatter.made == 2


@pytest.mark.parametrize(
    "given", [{"continue_final_message": True}, {"chat_template": "{{ messages }}"}]
)
def test_what_only_hugging_face_knows_is_refused_by_name(
    tokenizer: GGUFTokenizer, given: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=f"does not know {next(iter(given))}"):
        tokenizer.apply_chat_template(TURNS, tokenize=False, **given)
    text = tokenizer.apply_chat_template(TURNS, tokenize=False, continue_final_message=False)
    assert text.endswith("<user>the")


@pytest.mark.parametrize("load", [GGUFTokenizer.from_file, LlamaCppBackend])
def test_a_damaged_file_is_told_from_one_that_is_no_gguf(
    lib: Library, package: ModuleType, model: Path, load: Callable[[Path], object]
) -> None:
    def fail(path: str, **settings: object) -> None:
        raise ValueError(f"Failed to load model from file: {path}")

    package.__dict__["Llama"] = fail
    with pytest.raises(ValueError, match=r"Q4_1\.gguf: llama\.cpp does not load it: it is damaged"):
        load(model)
    model.write_bytes(b"<htm")
    with pytest.raises(ValueError, match="not a GGUF: it begins with b'<htm'"):
        load(model)


def test_a_context_that_cannot_be_made_is_no_damaged_file(
    lib: Library, package: ModuleType, model: Path
) -> None:
    def fail(path: str, **settings: object) -> None:
        raise ValueError("Failed to create llama_context")

    package.__dict__["Llama"] = fail
    with pytest.raises(ValueError, match="Failed to create llama_context"):
        LlamaCppBackend(model)


def test_a_missing_vocabulary_is_told(lib: Library, model: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.gguf: cannot be read: No such file"):
        GGUFTokenizer.from_file(model.with_name("none.gguf"))


def test_a_mismatch_is_a_refusal_of_the_command_line() -> None:
    assert issubclass(TokenMismatchError, HostwheelError)
    assert TokenMismatchError.exit_code == 1
