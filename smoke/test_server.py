"""llama-server: what it answers, to whom, and what it refuses."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
from openai.types.chat import ChatCompletionUserMessageParam

from smoke.installed import Installed
from smoke.recorded import ANSWER, BEGINNING, COMPLETION, LOG_PARIS, QUESTION
from smoke.serving import ENDLESS, Reply, Server, serve, until, well

ASKED_OF: ChatCompletionUserMessageParam = {"role": "user", "content": QUESTION}
ASKED = {"messages": [ASKED_OF], "temperature": 0, "max_tokens": 16}
BEGUN = {"prompt": BEGINNING, "temperature": 0, "n_predict": 3}

KEY = {"Authorization": "Bearer right"}
CLIENTS, SLOTS = 32, 8
MARGIN = 0.2  # of log p between two tokens: batches of other sizes round by up to 0.05
TOO_LARGE = 100 * 2**20 + 1  # bytes; cpp-httplib takes a hundred MiB


@pytest.fixture(scope="module")
def asked(
    installed: Installed, smollm2: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server with a real model, for one client after another."""
    log = tmp_path_factory.mktemp("asked") / "server.log"
    with serve(installed, smollm2, "-c", "512", "--metrics", log=log) as server:
        yield server


@pytest.fixture(scope="module")
def guarded(
    installed: Installed, tiny: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server with a key, for many clients, with a model that is fast and says nonsense."""
    log = tmp_path_factory.mktemp("guarded") / "server.log"
    options = ("-c", "2048", "-np", str(SLOTS), "--api-key", "right")
    with serve(installed, tiny("Q8_0"), *options, log=log) as server:
        yield server


def refused(reply: Reply, *statuses: int) -> str:
    """What a server says that refuses, in the form that clients read."""
    assert reply.status in statuses, reply.text
    error = reply.json["error"]
    assert error["code"] == reply.status
    return str(error["message"])


def test_it_is_healthy_and_tells_what_it_is(asked: Server, smollm2: Path) -> None:
    assert well(asked.ask("/health")) == {"status": "ok"}
    props = well(asked.ask("/props"))
    assert props["model_path"] == str(smollm2)
    assert props["default_generation_settings"]["n_ctx"] == 512
    assert "<|im_start|>" in props["chat_template"]


def test_it_completes_as_recorded(asked: Server) -> None:
    told = well(asked.ask("/completion", BEGUN))
    assert told["content"] == COMPLETION
    assert told["tokens_predicted"] == 3


def test_it_chats_as_recorded(asked: Server) -> None:
    told = well(asked.ask("/v1/chat/completions", ASKED))
    assert told["choices"][0]["message"]["content"] == ANSWER
    assert told["choices"][0]["finish_reason"] == "stop"


def test_a_stream_has_the_same_words(asked: Server) -> None:
    deltas = [event["choices"][0] for event in asked.stream("/v1/chat/completions", ASKED)]
    words = [delta["delta"].get("content") or "" for delta in deltas]
    assert "".join(words) == ANSWER
    assert len(list(filter(None, words))) > 3
    assert deltas[-1]["finish_reason"] == "stop"


def test_log_probabilities(asked: Server) -> None:
    told = well(asked.ask("/completion", {**BEGUN, "n_probs": 5}))
    first = told["completion_probabilities"][0]
    ranked = [each["logprob"] for each in first["top_logprobs"]]
    assert first["token"] == first["top_logprobs"][0]["token"] == " Paris"
    assert first["logprob"] == pytest.approx(LOG_PARIS, abs=0.05)
    assert ranked == sorted(ranked, reverse=True)
    assert len(ranked) == 5


def test_grammars_hold(asked: Server) -> None:
    """One that is written, and one made of a JSON schema."""
    hot = {"prompt": "Answer:", "temperature": 1.5, "seed": 3, "n_predict": 40}
    written = well(asked.ask("/completion", {**hot, "grammar": 'root ::= "no" [0-9] "!"'}))
    assert re.fullmatch(r"no\d!", written["content"])
    kinds = {"type": "object", "properties": {"capital": {"type": "boolean"}}}
    schema = {**kinds, "required": ["capital"], "additionalProperties": False}
    made = well(asked.ask("/completion", {**hot, "json_schema": schema}))
    assert json.loads(made["content"]) in ({"capital": True}, {"capital": False})


def test_tokens_and_back(asked: Server) -> None:
    text = "Zürich 北京 \N{GRINNING FACE}\n\tdef f(x): return x"
    tokens = well(asked.ask("/tokenize", {"content": text}))["tokens"]
    assert 10 < len(tokens) < len(text.encode())
    assert well(asked.ask("/detokenize", {"tokens": tokens}))["content"] == text


def test_metrics_count(asked: Server) -> None:
    before = metric(asked, "llamacpp:tokens_predicted_total")
    well(asked.ask("/completion", BEGUN))
    assert metric(asked, "llamacpp:tokens_predicted_total") == before + 3


def metric(server: Server, name: str) -> float:
    lines = server.ask("/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def test_a_slot_is_free_again_when_its_client_hangs_up(asked: Server) -> None:
    assert [slot["id"] for slot in well(asked.ask("/slots"))] == [0, 1, 2, 3]
    stream = asked.stream("/completion", ENDLESS)
    assert next(stream)["content"]
    assert asked.busy() == 1
    stream.close()
    until(lambda: asked.busy() == 0)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"prompt": ', "parse error"),
        (b"", "parse error"),
        (b"\xff\xfe", "parse error"),
        (b"[]", "array"),
        (b'{"prompt": 5}', "prompt"),
        (b"[" * 100_000, "parse error"),
        (b'{"prompt": "a", "grammar": "root ::= ("}', "grammar"),
    ],
    ids=["half", "nothing", "no text", "a list", "a number", "deep", "grammar"],
)
def test_what_it_cannot_read_is_refused(asked: Server, body: bytes, said: str) -> None:
    """llama-server says 500 of what is no JSON, 400 of the rest."""
    assert said in refused(asked.ask("/completion", body), 400, 500)
    assert well(asked.ask("/completion", BEGUN))["content"] == COMPLETION


def test_a_prompt_larger_than_the_context_is_refused(asked: Server) -> None:
    said = refused(asked.ask("/completion", {**BEGUN, "prompt": "word " * 600}), 400)
    assert "exceeds the available context size (512 tokens)" in said
    assert well(asked.ask("/completion", BEGUN))["content"] == COMPLETION


def test_a_body_that_is_too_large_is_refused(guarded: Server) -> None:
    reply = guarded.ask("/tokenize", b" " * TOO_LARGE, KEY)
    assert reply.status == 413
    assert well(guarded.ask("/tokenize", {"content": ""}, KEY)) == {"tokens": []}


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer wrong"}, {"X-Api-Key": "righ"}], ids=str
)
def test_without_the_key_nothing_is_answered(guarded: Server, headers: Mapping[str, str]) -> None:
    for path, body in (("/completion", BEGUN), ("/slots", None), ("/tokenize", {"content": "a"})):
        assert refused(guarded.ask(path, body, headers), 401) == "Invalid API Key"
    assert guarded.ask("/health").status == 200


def test_many_clients_get_their_own_answers(guarded: Server) -> None:
    """Asked all at once, each gets what it gets when it is alone."""
    bodies = [
        {
            "prompt": f"Story {i}:",
            "temperature": 0,
            "n_predict": 8,
            "n_probs": 2,
            "cache_prompt": False,
        }
        for i in range(CLIENTS)
    ]
    ask = partial(guarded.ask, "/completion", headers=KEY)
    alone = [well(ask(body)) for body in bodies]
    with ThreadPoolExecutor(CLIENTS) as clients:
        together = list(map(well, clients.map(ask, bodies)))
    expected = list(map(certain, alone))
    assert sum(map(len, expected)) > 2 * CLIENTS
    for told, tokens in zip(together, expected, strict=True):
        found = [each["token"] for each in told["completion_probabilities"]]
        assert told["tokens_predicted"] == 8
        assert found[: len(tokens)] == tokens


def certain(told: Mapping[str, Any]) -> list[str]:
    """The tokens before the first that rounding could turn into another."""

    def ahead(each: Mapping[str, Any]) -> bool:
        first, second = each["top_logprobs"]
        return bool(first["logprob"] - second["logprob"] > MARGIN)

    return [each["token"] for each in takewhile(ahead, told["completion_probabilities"])]


def test_embeddings_are_those_of_the_binding(
    installed: Installed, server: Callable[..., Server], tiny: Callable[[str], Path]
) -> None:
    texts = ["The cat sat on the mat.", "Rates rose."]
    running = server(tiny("Q8_0"), "--embeddings", "--pooling", "mean")
    told = well(running.ask("/v1/embeddings", {"input": texts}))["data"]
    script = (
        "import sys, json; from llama_cpp import Llama; "
        "llm = Llama(sys.argv[1], embedding=True, pooling_type=1, verbose=False); "
        "print(json.dumps(llm.embed(sys.argv[2:], normalize=True)))"
    )
    done = installed.run("python", "-c", script, tiny("Q8_0"), *texts)
    assert done.returncode == 0, done.stderr
    ours = np.array([each["embedding"] for each in told])
    likeness = ours @ np.array(json.loads(done.stdout)).T
    assert likeness.diagonal() == pytest.approx([1, 1], abs=1e-3)
    assert likeness[0][1] < 0.9


def test_the_official_client(asked: Server) -> None:
    with official_client(asked, "none") as client:
        whole = client.chat.completions.create(
            model="any", messages=[ASKED_OF], temperature=0, max_tokens=16
        )
        assert whole.choices[0].message.content == ANSWER
        with client.chat.completions.create(
            model="any", messages=[ASKED_OF], temperature=0, max_tokens=16, stream=True
        ) as stream:
            words = [chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices]
        assert "".join(words) == ANSWER
        assert len(client.models.list().data) == 1


def test_the_official_client_is_told_of_faults(asked: Server, guarded: Server) -> None:
    with (
        official_client(asked, "none") as client,
        pytest.raises(openai.BadRequestError, match="exceeds the available context"),
    ):
        client.completions.create(model="any", prompt="word " * 600)
    with (
        official_client(guarded, "wrong") as client,
        pytest.raises(openai.AuthenticationError, match="Invalid API Key"),
    ):
        client.models.list()


def official_client(server: Server, key: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0)
