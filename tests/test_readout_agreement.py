"""A tokenizer that was passed has to mean what the GGUF means, with the stand-in."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from hostwheel.errors import MachineLacks
from hostwheel.readout import LlamaCppBackend, TokenMismatchError
from tests.stub_llama import PIECES, Library, cut

pytest_plugins = ("tests.stubbed",)

YES_NO = [257, ord("N")]


class Foreign:
    """A tokenizer in Hugging Face's manner, over the stand-in's pieces."""

    chat_template = None

    def __init__(self, *, split: str = "", renamed: dict[int, str] | None = None) -> None:
        self.split, self.renamed = split, renamed or {}

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        assert not add_special_tokens
        ids = cut(text.encode())
        return [ord(letter) for letter in text] if self.split and self.split in text else ids

    def decode(self, ids: list[int]) -> str:
        (token,) = ids
        return self.renamed.get(token, PIECES[token].decode(errors="replace"))


def test_a_tokenizer_that_agrees_renders_and_maps(lib: Library, model: Path) -> None:
    foreign = Foreign(renamed={257: " Ye"})  # white space apart
    with LlamaCppBackend(model, tokenizer=foreign) as backend:
        assert backend.tokenizer is foreign
        (row,) = backend.next_token_logprobs(["Yes"], [YES_NO])
    with LlamaCppBackend(model) as backend:
        assert (row == backend.next_token_logprobs(["Yes"], [YES_NO])[0]).all()


def test_prompts_that_are_cut_differently_are_refused(lib: Library, model: Path) -> None:
    with LlamaCppBackend(model, tokenizer=Foreign(split="th")) as backend:
        with pytest.raises(TokenMismatchError) as caught:
            backend.next_token_logprobs(["abc", "a thing"], [[1], [1]])
        with pytest.raises(TokenMismatchError):
            backend.score_shared([("a t", ["hing"])], [[1]])
    said = str(caught.value)
    assert "7 tokens of a prompt and the GGUF's vocabulary 6" in said
    assert "first differ at token 2: [116, 104, 105, 110] from the tokenizer" in said
    assert "[256, 105, 110, 103] from the GGUF" in said
    assert lib.decoded == 0


def test_labels_with_another_name_are_refused(lib: Library, model: Path) -> None:
    with LlamaCppBackend(model, tokenizer=Foreign(renamed={257: "No"})) as backend:
        with pytest.raises(TokenMismatchError, match="257 is 'No' for the tokenizer and 'Ye'"):
            backend.next_token_logprobs(["abc"], [YES_NO])
        with pytest.raises(TokenMismatchError):
            backend.score_shared([("abc", ["d"])], [YES_NO])


def test_a_name_goes_to_transformers(
    lib: Library, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transformers = ModuleType("transformers")
    foreign = Foreign()
    loader = type("AutoTokenizer", (), {"from_pretrained": staticmethod({"a/b": foreign}.get)})
    transformers.__dict__["AutoTokenizer"] = loader
    monkeypatch.setitem(sys.modules, "transformers", transformers)
    assert LlamaCppBackend(model, tokenizer="a/b").tokenizer is foreign
    assert LlamaCppBackend(model, tokenizer=Path("a", "b")).tokenizer is foreign
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MachineLacks, match="transformers is not installed"):
        LlamaCppBackend(model, tokenizer="a/b")


def test_what_is_no_tokenizer_is_refused_when_the_backend_is_made(
    lib: Library, package: ModuleType, model: Path
) -> None:
    with pytest.raises(ValueError, match="int has no encode and no decode"):
        LlamaCppBackend(model, tokenizer=7)
    with pytest.raises(ValueError, match="bytes has no encode"):
        LlamaCppBackend(model, tokenizer=b"a/b")
    assert all(llama.closes for llama in package.Llama.made)
