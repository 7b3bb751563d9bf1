"""Ask a model something through the binding and through llama-server, from fresh environments."""

import json
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from smoke.recorded import QUESTION

ASK = """
import sys
from llama_cpp import Llama

model, question = sys.argv[1:]
llm = Llama(model_path=model, n_ctx=256, verbose=False)
answer = llm.create_chat_completion(
    [{"role": "user", "content": question}], temperature=0, max_tokens=16
)
print(answer["choices"][0]["message"]["content"])
"""

# Few tokens in, three out: an emulated CPU takes ten seconds for that.
COMPLETE = """
import sys
from llama_cpp import Llama

llm = Llama(model_path=sys.argv[1], n_ctx=64, n_threads=1, verbose=False)
answer = llm("The capital of France is", temperature=0, max_tokens=3)
print(answer["choices"][0]["text"])
"""
COMPLETION = " Paris."


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def served(server: Path, model: Path, cwd: Path) -> Iterator[str]:
    """The address of a llama-server that is ready; it is stopped with SIGTERM at the end."""
    port = free_port()
    log = (cwd / "server.log").open("wb")
    argv = (server, "-m", model, "--port", str(port), "-c", "512", "-t", "2", "--offline")
    process = subprocess.Popen(argv, cwd=cwd, env={}, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        wait_until_ready(address, process, cwd / "server.log")
        yield address
    finally:
        process.terminate()
        assert process.wait(timeout=30) == 0, (cwd / "server.log").read_text()
        log.close()


def wait_until_ready(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=5) as reply:
                if reply.status == 200:
                    return
        except OSError:
            pass
        time.sleep(0.1)
    raise AssertionError(f"llama-server is not ready after a minute: {log.read_text()}")


def ask_server(address: str) -> str:
    body = {
        "messages": [{"role": "user", "content": QUESTION}],
        "temperature": 0,
        "max_tokens": 16,
    }
    request = urllib.request.Request(
        f"{address}/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as reply:
        answer: Any = json.load(reply)
    return str(answer["choices"][0]["message"]["content"])
