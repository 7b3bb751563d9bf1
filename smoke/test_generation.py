"""What the binding generates, keeps, gives back, and how it takes a damaged file."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from smoke.installed import Installed
from smoke.recorded import ANSWER, BEGINNING, COMPLETION, QUESTION

GRAMMAR = 'root ::= ("yes" | "no") " " [0-9] [0-9] "!"'
SCHEMA = {
    "type": "object",
    "properties": {"kind": {"enum": ["town", "land"]}, "big": {"type": "boolean"}},
    "required": ["kind", "big"],
    "additionalProperties": False,
}

# Each prints one JSON value. All are given the model; `rest` are the other arguments. One thread:
# two wait for one another in loops, and on a busy machine that takes minutes.
BEGIN = """
import ctypes, json, os, sys
import numpy as np
from llama_cpp import Llama, LlamaGrammar
model, *rest = sys.argv[1:]
one = {"n_threads": 1, "n_threads_batch": 1}
"""
LOAD = "llm = Llama(model, n_ctx=256, **one, verbose=False)\n"

CHAT = """
messages = [{"role": "user", "content": rest[0]}]
told = llm.create_chat_completion(messages, temperature=0, max_tokens=16)
print(json.dumps(told["choices"][0]["message"]["content"]))
"""
SEEDS = """
def said(seed):
    llm.reset()
    told = llm("Once upon a time", seed=seed, temperature=1.0, max_tokens=8)
    return told["choices"][0]["text"]
print(json.dumps([said(seed) for seed in (7, 7, 8)]))
"""
GRAMMARS = """
written = LlamaGrammar.from_string(rest[0], verbose=False)
made = LlamaGrammar.from_json_schema(rest[1], verbose=False)
def said(grammar, seed):
    llm.reset()
    hot = {"temperature": 1.5, "seed": seed, "top_k": 0, "max_tokens": 40}
    return llm("Is it so?", grammar=grammar, **hot)["choices"][0]["text"]
print(json.dumps([[said(each, seed) for seed in (1, 2)] for each in (written, made, None)]))
"""
STATES = """
*prompt, last = llm.tokenize(rest[0].encode())
def greedy(llm):
    tokens = [last]
    for _ in range(6):
        llm.eval(tokens[-1:])
        tokens.append(llm.sample(temp=0))
    return llm.detokenize(tokens[1:]).decode()
llm.eval(prompt)
state = llm.save_state()
first = greedy(llm)
llm.reset()
llm.eval(llm.tokenize(b"Something else that lies between"))
llm.load_state(state)
again = greedy(llm)
other = Llama(model, n_ctx=256, **one, verbose=False)
without = greedy(other)
other.reset()
other.load_state(state)
print(json.dumps([first, again, greedy(other), without]))
"""
EMBEDDINGS = """
llm = Llama(model, n_ctx=128, **one, embedding=True, pooling_type=1, verbose=False)
rows = np.array(llm.embed(rest, normalize=True))
print(json.dumps((rows @ rows.T).tolist()))
"""
LOADS = """
def measured():
    ctypes.CDLL(None).malloc_trim(0)  # what malloc keeps for later would hide a leak
    fields = dict(line.split(":", 1) for line in open("/proc/self/status"))
    memory = int(fields["VmRSS"].split()[0])
    return memory, len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
found = []
for count in range(220):
    if count == 20:
        found.append(measured())
    llm = Llama(model, n_ctx=64, **one, verbose=False)
    llm.eval([1, 2, 3])
    llm.close()
print(json.dumps([*found, measured()]))
"""
DAMAGED = """
try:
    Llama(model, n_ctx=64, **one, verbose=False)
except Exception as error:
    print(json.dumps([type(error).__name__, str(error)]))
else:
    print(json.dumps("it loads"))
"""
GROWTH = 1024  # KiB that 200 loads may add: 600 were seen, all within the first 40


def printed(installed: Installed, script: str, model: Path, *rest: str) -> Any:
    """What a script prints that runs with the installed wheel's Python, in its own process."""
    done = installed.run("python", "-c", BEGIN + script, model, *rest, timeout=600)
    assert done.returncode == 0, f"exit status {done.returncode}: {done.stderr}"
    return json.loads(done.stdout)


def test_greedy_text_is_as_recorded(installed: Installed, smollm2: Path) -> None:
    assert printed(installed, LOAD + CHAT, smollm2, QUESTION) == ANSWER


def test_a_seed_repeats(installed: Installed, smollm2: Path) -> None:
    first, again, other = printed(installed, LOAD + SEEDS, smollm2)
    assert first == again != other


def test_grammars_hold(installed: Installed, tiny: Callable[[str], Path]) -> None:
    """A model of random weights says nothing of the kind by itself."""
    asked = (GRAMMAR, json.dumps(SCHEMA))
    written, made, free = printed(installed, LOAD + GRAMMARS, tiny("Q8_0"), *asked)
    answer = re.compile(r"(yes|no) \d\d!")
    assert all(map(answer.fullmatch, written))
    assert not any(map(answer.search, free))
    for text in made:
        held = json.loads(text)
        assert held.keys() == {"kind", "big"}
        assert held["kind"] in ("town", "land")
        assert isinstance(held["big"], bool)


def test_a_saved_state_goes_on_as_before(installed: Installed, smollm2: Path) -> None:
    """In the same context, after something else, and in another."""
    first, again, elsewhere, without = printed(installed, LOAD + STATES, smollm2, BEGINNING)
    assert first.startswith(COMPLETION)
    assert first == again == elsewhere != without


def test_embeddings_know_what_is_alike(installed: Installed, smollm2: Path) -> None:
    texts = ("The cat sat on the mat.", "A cat is sitting on a mat.", "Interest rates rose.")
    likeness = printed(installed, EMBEDDINGS, smollm2, *texts)
    assert [row[at] for at, row in enumerate(likeness)] == pytest.approx([1, 1, 1])
    assert likeness[0][1] > 0.9 > likeness[0][2]


def test_two_hundred_loads_leave_nothing(installed: Installed, tiny: Callable[[str], Path]) -> None:
    start, end = printed(installed, LOADS, tiny("Q8_0"))
    assert end[1:] == start[1:], "open files, threads"
    assert end[0] - start[0] < GROWTH


def in_place(at: int, value: bytes) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + value + data[at + len(value) :]


def after(found: bytes, skip: int, value: bytes) -> Callable[[bytes], bytes]:
    """`value` put `skip` bytes behind the end of `found`."""
    return lambda data: in_place(data.index(found) + len(found) + skip, value)(data)


HUGE = (2**62).to_bytes(8, "little")
DAMAGES: Mapping[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut in the header": lambda data: data[:20],
    "cut in the vocabulary": lambda data: data[:100_000],
    "cut in the weights": lambda data: data[: len(data) * 9 // 10],
    "wrong magic": in_place(0, b"GGML"),
    "unknown version": in_place(4, (99).to_bytes(4, "little")),
    "bytes swapped": in_place(4, (3).to_bytes(4, "big")),
    "huge number of tensors": in_place(8, HUGE),
    "huge number of entries": in_place(16, HUGE),
    "huge key": in_place(24, HUGE),
    "huge vocabulary": after(b"tokenizer.ggml.tokens", 8, HUGE),
    "huge piece": after(b"tokenizer.ggml.tokens", 16, HUGE),
    "unknown type of entry": after(b"tokenizer.ggml.tokens", 0, b"\x63\0\0\0"),
    "five dimensions": after(b"output_norm.weight", 0, b"\5\0\0\0"),
    "huge tensor": after(b"output_norm.weight", 4, HUGE),
    "no rows": after(b"output_norm.weight", 4, bytes(8)),
    "unknown type of tensor": after(b"output_norm.weight", 12, b"\x63\0\0\0"),
    "tensor beyond the end": after(b"output_norm.weight", 16, HUGE),
    "huge number of layers": after(b"llama.block_count", 4, b"\xff\xff\xff\x7f"),
    "no heads": after(b"llama.attention.head_count", 4, bytes(4)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_an_exception(
    damage: str, installed: Installed, tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    """Not a crash, and not a model."""
    whole = tiny("Q8_0").read_bytes()
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(DAMAGES[damage](whole))
    assert damaged.read_bytes() != whole
    name, said = printed(installed, DAMAGED, damaged)
    assert name == "ValueError", said
    assert "damaged.gguf" in said


def test_the_whole_file_loads(installed: Installed, tiny: Callable[[str], Path]) -> None:
    """The healthy twin of the damaged ones."""
    assert printed(installed, DAMAGED, tiny("Q8_0")) == "it loads"
