"""The tokenizers and chat templates of the source archive, through the real engine."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from hostwheel.readout import GGUFTokenizer
from tests.builds import Installed

pytest_plugins = ("tests.engines",)
pytestmark = [pytest.mark.build, pytest.mark.engine, pytest.mark.timeout(3600)]

# Templates that want more than a conversation, and get it.
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {
    "type": "object", "properties": {"x": {"type": "string", "description": "d"}}}}}  # fmt: skip
GIVEN: Mapping[str, Mapping[str, Any]] = {
    "CohereForAI-c4ai-command-r-plus-tool_use": {"tools": [TOOL]},
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": {"tools": [TOOL]},
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": {"tools": [TOOL]},
    "fireworks-ai-llama-3-firefunction-v2": {"functions": "[]", "datetime": "today"},
}
# Templates that say no themselves: {name: (role, what they say)}.
REFUSED = {"google-gemma-2-2b-it": ("system", "System role not supported")}

TURNS = ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Is it red?"})

# SentencePiece has "A" and " A"; which of them is the answer depends on what comes before it.
AFTER_A_LINE = """{% for m in messages %}<|{{ m.role }}|>
{{ m.content }}{{ eos_token }}
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %}"""
AFTER_A_SPACE = """{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]
{%- else %} {{ m.content }} {{ eos_token }}{% endif %}{% endfor %}"""
HIDDEN = """{% for m in messages %}{% if m.role == 'user' %}Q: {{ m.content }}
{% endif %}{% endfor %}{% if add_generation_prompt %}Answer:
{% endif %}"""


def vocabulary_tests(vocabulary: Path) -> Sequence[tuple[str, list[int]]]:
    """llama.cpp's own pairs of a text and its token ids, beside the vocabulary's file."""
    texts = vocabulary.with_suffix(".gguf.inp").read_bytes().decode()
    ids = vocabulary.with_suffix(".gguf.out").read_text().splitlines()
    cut = texts.split("\n__ggml_vocab_test__\n")[: len(ids)]
    return [(text, list(map(int, line.split()))) for text, line in zip(cut, ids, strict=True)]


@pytest.fixture
def templates(sources: Path) -> list[Path]:
    return sorted((sources / "models" / "templates").glob("*.jinja"))


@pytest.fixture
def tokenizer(engine: Installed, sources: Path) -> GGUFTokenizer:
    return GGUFTokenizer.from_file(sources / "models" / "ggml-vocab-phi-3.gguf")


def test_every_vocabulary_gives_llama_cpps_own_token_ids(engine: Installed, sources: Path) -> None:
    """Byte-level BPE, SentencePiece and WordPiece; the texts come back where they can."""
    vocabularies = sorted((sources / "models").glob("*.gguf"))
    tested = [path for path in vocabularies if path.with_suffix(".gguf.inp").exists()]
    assert len(tested) == 15
    for path in tested:
        tokenizer = GGUFTokenizer.from_file(path)
        for text, ids in vocabulary_tests(path):
            assert tokenizer.encode(text, add_special_tokens=False) == ids, (path.name, text)


@pytest.mark.parametrize("name", ["gpt-2", "llama-bpe", "llama-spm", "qwen2", "phi-3"])
def test_texts_come_back(engine: Installed, sources: Path, name: str) -> None:
    tokenizer = GGUFTokenizer.from_file(sources / "models" / f"ggml-vocab-{name}.gguf")
    for text in ("Hello world", "Äpfel, 2 € 🦙", "two\nlines\t", "x" * 999):
        assert tokenizer.decode(tokenizer.encode(text), skip_special_tokens=True) == text


def test_wordpiece_labels_are_one_token(engine: Installed, sources: Path) -> None:
    tokenizer = GGUFTokenizer.from_file(sources / "models" / "ggml-vocab-bert-bge.gguf")
    for label in ("A", "Yes", "1"):
        (token,) = tokenizer.encode(label, add_special_tokens=False)
        assert tokenizer.decode(token).strip() == label.lower()


@pytest.mark.parametrize(
    ("template", "piece"),
    [(AFTER_A_LINE, "A"), (AFTER_A_SPACE, " A"), (HIDDEN, "A"), (None, " A")],
    ids=["after a line break", "after a space", "past answers hidden", "no template"],
)
def test_a_bare_label_is_the_token_that_follows_the_template(
    engine: Installed, sources: Path, template: str | None, piece: str
) -> None:
    tokenizer = GGUFTokenizer.from_file(sources / "models" / "ggml-vocab-llama-spm.gguf")
    tokenizer.chat_template = template
    pieces = {"A": tokenizer.encode("?\nA")[-1], " A": tokenizer.encode("? A")[-1]}
    assert pieces["A"] != pieces[" A"]
    assert tokenizer.encode("A", add_special_tokens=False) == [pieces[piece]]
    assert tokenizer.encode("A A", add_special_tokens=False) == [pieces[" A"]] * 2


def test_every_template_of_the_archive_compiles_and_renders(
    tokenizer: GGUFTokenizer, templates: list[Path]
) -> None:
    assert len(templates) >= 70
    for path in templates:
        tokenizer.chat_template = path.read_text()
        name = path.stem
        refused, _ = REFUSED.get(name, ("", ""))
        turns = [turn for turn in TURNS if turn["role"] != refused]
        text = tokenizer.apply_chat_template(
            turns, tokenize=False, add_generation_prompt=True, **GIVEN.get(name, {})
        )
        assert "Is it red?" in text, name
        assert refused or "Be brief." in text, name


@pytest.mark.parametrize(("name", "refusal"), REFUSED.items())
def test_what_a_template_refuses_is_told_in_its_own_words(
    tokenizer: GGUFTokenizer, sources: Path, name: str, refusal: tuple[str, str]
) -> None:
    tokenizer.chat_template = (sources / "models" / "templates" / f"{name}.jinja").read_text()
    with pytest.raises(ValueError, match=refusal[1]):
        tokenizer.apply_chat_template(TURNS)


def test_generation_tags_documents_and_the_date_work(tokenizer: GGUFTokenizer) -> None:
    tokenizer.chat_template = (
        "{{ strftime_now('%Y')|length }} {{ documents|tojson }} {{ tools|length }} "
        "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"
    )
    text = tokenizer.apply_chat_template(TURNS, tokenize=False, documents=["é"], tools=[TOOL])
    assert text == '4 ["é"] 1 Be brief.Is it red?'


def test_ids_and_text_of_a_conversation_agree(tokenizer: GGUFTokenizer) -> None:
    text = tokenizer.apply_chat_template(TURNS, tokenize=False)
    ids = tokenizer.apply_chat_template(TURNS)
    assert ids == tokenizer.encode(text, add_special_tokens=False)
    assert len(ids) < len(text) / 2  # names of special tokens stand for these


def test_a_broken_file_is_an_error(engine: Installed, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(20))
    with pytest.raises(ValueError, match=r"broken\.gguf"):
        GGUFTokenizer.from_file(broken)
    with pytest.raises(ValueError, match=r"missing\.gguf"):
        GGUFTokenizer.from_file(tmp_path / "missing.gguf")
