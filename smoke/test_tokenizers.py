"""Every tokenizer that llama.cpp's sources have a pair of texts and tokens for."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from smoke.installed import Installed
from smoke.serving import Server
from smoke.weightless import write_weightless

NAMES = (
    "bert-bge",
    "command-r",
    "deepseek-coder",
    "deepseek-llm",
    "falcon",
    "gemma-4",
    "gpt-2",
    "llama-bpe",
    "llama-spm",
    "mpt",
    "phi-3",
    "qwen2",
    "qwen35",
    "refact",
    "starcoder",
)
BETWEEN = "\n__ggml_vocab_test__\n"  # between the texts of a .inp

# Of each vocabulary of a JSON file all texts in tokens. Special tokens are texts like others.
TOKENIZE = """
import json, sys
from llama_cpp import Llama

asked = json.load(open(sys.argv[1]))
found = {}
for vocabulary, texts in asked.items():
    llm = Llama(vocabulary, vocab_only=True, verbose=False)
    found[vocabulary] = [llm.tokenize(text.encode(), add_bos=False) for text in texts]
    llm.close()
print(json.dumps(found))
"""

Tokens = list[list[int]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """A vocabulary, texts, and the tokens that the makers of its model say they are."""

    vocabulary: Path
    texts: Sequence[str]
    tokens: Tokens


def read_pair(sources: Path, name: str) -> Pair:
    vocabulary = sources / "models" / f"ggml-vocab-{name}.gguf"
    content = Path(f"{vocabulary}.inp").read_bytes().decode()
    texts = content.removesuffix(BETWEEN).split(BETWEEN)
    lines = Path(f"{vocabulary}.out").read_text().splitlines()
    tokens = [[int(token) for token in line.split()] for line in lines]
    assert len(tokens) == len(texts) > 40
    return Pair(vocabulary=vocabulary, texts=texts, tokens=tokens)


@pytest.fixture(scope="session")
def by_the_binding(
    installed: Installed, llama_cpp_source: Path, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Tokens]:
    """What the binding makes of each vocabulary's texts, in one process."""
    pairs = [read_pair(llama_cpp_source, name) for name in NAMES]
    asked = tmp_path_factory.mktemp("tokenize") / "asked.json"
    asked.write_text(json.dumps({str(pair.vocabulary): pair.texts for pair in pairs}))
    done = installed.run("python", "-c", TOKENIZE, asked)
    assert done.returncode == 0, done.stderr
    found: Mapping[str, Tokens] = json.loads(done.stdout)
    return found


def test_no_pair_is_left_out(llama_cpp_source: Path) -> None:
    files = (llama_cpp_source / "models").glob("*.gguf.inp")
    assert {file.name for file in files} == {f"ggml-vocab-{name}.gguf.inp" for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_the_binding_tokenizes(
    name: str, by_the_binding: Mapping[str, Tokens], llama_cpp_source: Path
) -> None:
    pair = read_pair(llama_cpp_source, name)
    assert by_the_binding[str(pair.vocabulary)] == pair.tokens


@pytest.mark.parametrize("name", NAMES)
def test_llama_server_tokenizes(
    name: str, server: Callable[..., Server], llama_cpp_source: Path, tmp_path: Path
) -> None:
    pair = read_pair(llama_cpp_source, name)
    model = tmp_path / f"{name}.gguf"
    write_weightless(model, pair.vocabulary)
    running = server(model, "--no-warmup", "-np", "1", "-c", "64")
    asked = ({"content": text, "parse_special": False} for text in pair.texts)
    assert [running.ask("/tokenize", body).json["tokens"] for body in asked] == pair.tokens
