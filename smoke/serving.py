"""Our llama-server: started on a free port, asked over HTTP, stopped, and no process left."""

import http.client
import json
import re
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import pytest

from smoke.installed import Installed

LISTENING = re.compile(r"listening on http://127\.0\.0\.1:(\d+)$", re.MULTILINE)
LOADING = 300  # seconds that a model may take to load; emulated, or on a busy machine, it is slow
STOPPING = 10  # seconds from SIGTERM to the end: after that docker kills a container
MARK = "SMOKE_SERVER"  # in the environment, which every child inherits

# A request that goes on until the context is full.
ENDLESS = {"prompt": "Once upon a time", "n_predict": -1, "ignore_eos": True, "cache_prompt": False}


class Programs(Protocol):
    """Where llama-server is started from: an installed wheel or an unpacked archive."""

    @property
    def cwd(self) -> Path: ...

    def start(
        self,
        *argv: str | Path,
        wrap: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        log: Path | None = None,
    ) -> "subprocess.Popen[str]": ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    status: int
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """A llama-server that is ready. `mark` is in the environment of it and all its children."""

    process: "subprocess.Popen[str]"
    port: int
    log: Path
    mark: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(
        self,
        path: str,
        body: Mapping[str, Any] | bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """GET without a body, POST with one: a mapping goes as JSON, bytes as they are."""
        with closing(self.send(path, body, headers)) as connection:
            response = connection.getresponse()
            return Reply(status=response.status, text=response.read().decode())

    def stream(self, path: str, body: Mapping[str, Any]) -> Generator[Any, None, None]:
        """The events of a stream as they come. Closing the generator hangs up."""
        with closing(self.send(path, {**body, "stream": True}, None)) as connection:
            for line in connection.getresponse():
                if line.startswith(b"data: {"):
                    yield json.loads(line.removeprefix(b"data: "))

    def send(
        self,
        path: str,
        body: Mapping[str, Any] | bytes | None,
        headers: Mapping[str, str] | None,
    ) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LOADING)
        content = json.dumps(body).encode() if isinstance(body, Mapping) else body
        kind = {"Content-Type": "application/json"}
        connection.request(
            "GET" if body is None else "POST", path, content, {**kind, **(headers or {})}
        )
        return connection

    def busy(self) -> int:
        """How many slots are generating."""
        return sum(slot["is_processing"] for slot in self.ask("/slots").json)

    def stop(self) -> int:
        """Send SIGTERM and return the exit status. AssertionError when it takes too long."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=STOPPING)
        except subprocess.TimeoutExpired:
            self.process.kill()  # else whoever waits for an answer would wait on
            raise AssertionError(
                f"llama-server still ran {STOPPING} s after SIGTERM: {self.said()}"
            ) from None

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def processes(self) -> list[int]:
        """Its own id and those of its children, as far as they are running."""
        return [int(each.name) for each in Path("/proc").glob("[0-9]*") if marked(each, self.mark)]


def marked(process: Path, mark: str) -> bool:
    """Whether the process of this folder of /proc has `mark` in its environment."""
    try:
        return f"{MARK}={mark}".encode() in (process / "environ").read_bytes()
    except OSError:
        return False  # it has ended meanwhile, or is somebody else's


def well(reply: Reply) -> Any:
    """The JSON of a reply that has to be one without a fault."""
    assert reply.status == 200, reply.text
    return reply.json


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


@contextmanager
def serve(
    programs: Programs, model: Path, *options: str, log: Path, wrap: Sequence[str] = ()
) -> Iterator[Server]:
    """A ready server; at the end it gets SIGTERM, has to exit with 0, and nothing may be left."""
    mark = uuid4().hex
    fixed = ("--port", "0", "-t", "1", "--offline")
    process = programs.start(
        "llama-server", "-m", model, *fixed, *options, wrap=wrap, env={MARK: mark}, log=log
    )
    try:
        server = Server(process=process, port=ready_port(process, log), log=log, mark=mark)
        server.ask("/slots")  # answered by the main loop: from now on a signal finds it running
        yield server
        if process.poll() is None:
            server.stop()
        assert process.returncode == 0, server.said()
        assert server.processes() == []
    finally:
        process.kill()
        process.wait()


def ready_port(process: "subprocess.Popen[str]", log: Path) -> int:
    """The port that it chose. It says so when the model is loaded and SIGTERM is handled."""
    deadline = time.monotonic() + LOADING
    while time.monotonic() < deadline:
        if found := LISTENING.search(log.read_text(errors="replace")):
            return int(found[1])
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise RuntimeError(f"llama-server is not ready: {log.read_text(errors='replace')}")


@pytest.fixture
def server(installed: Installed, tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """`server(model, *options, wrap=())`: the installed llama-server, until the test ends."""
    with ExitStack() as stack:

        def started(model: Path, *options: str, wrap: Sequence[str] = ()) -> Server:
            log = tmp_path / f"server-{uuid4().hex[:8]}.log"
            return stack.enter_context(serve(installed, model, *options, log=log, wrap=wrap))

        yield started
