"""What the network answers, and what it does not, in one sentence each and in time."""

import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from hostwheel import web
from hostwheel.errors import BadInput, MachineLacks
from tests.served import serving

BODY = b"0123456789" * 100


class Handler(BaseHTTPRequestHandler):
    """/CODE answers with that code; /short, /unsized, /slow and /accept as they are called."""

    def do_GET(self) -> None:
        what = self.path.strip("/")
        if what.isdecimal():
            self.send_error(int(what))
            return
        body = (self.headers["Accept"] or "none").encode() if what == "accept" else BODY
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        if what != "unsized":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if what == "slow":
            time.sleep(1)
        self.wfile.write(body[:7] if what == "short" else body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving(Handler) as address:
        yield address


def test_an_answer_has_type_size_and_bytes(url: str) -> None:
    with web.opened(f"{url}/whole") as answer:
        assert (answer.content_type, answer.size) == ("text/plain", len(BODY))
        assert b"".join(answer.blocks) == BODY
    with web.opened(f"{url}/unsized") as answer:
        assert answer.size is None
        assert b"".join(answer.blocks) == BODY


def test_the_type_asked_for_is_told(url: str) -> None:
    assert web.read(f"{url}/accept", accept="application/json") == b"application/json"


def test_a_file_is_read_as_well(tmp_path: Path) -> None:
    file = tmp_path / "a b"
    file.write_bytes(BODY)
    assert web.read(file.as_uri()) == BODY
    with pytest.raises(MachineLacks, match=r"none cannot be read: .*No such file"):
        web.read((tmp_path / "none").as_uri())


@pytest.mark.parametrize("code", [403, 404, 410])
def test_what_is_not_there_is_absent(url: str, code: int) -> None:
    with pytest.raises(web.Absent, match=rf"^{url}/{code}: {code} [A-Z][\w ]+$"):
        web.read(f"{url}/{code}")


@pytest.mark.parametrize("code", [401, 429, 500, 503])
def test_any_other_code_is_no_answer(url: str, code: int) -> None:
    with pytest.raises(
        MachineLacks, match=rf"/{code} cannot be read: the server says {code} [A-Z]"
    ):
        web.read(f"{url}/{code}")


def test_a_body_that_ends_early_is_no_body(url: str) -> None:
    with pytest.raises(MachineLacks, match=f"connection ended after 7 of {len(BODY)} bytes"):
        web.read(f"{url}/short")


@pytest.mark.parametrize("path", ["whole", "unsized"])
def test_no_more_is_held_than_allowed(url: str, path: str) -> None:
    assert web.read(f"{url}/{path}", limit_bytes=len(BODY)) == BODY
    with pytest.raises(BadInput, match=f"/{path}: more than 999 bytes"):
        web.read(f"{url}/{path}", limit_bytes=999)


def test_a_server_that_says_nothing_is_given_up(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "TIMEOUT_S", 0.2)
    with pytest.raises(MachineLacks, match=r"broke after 0 bytes .*timed out"):
        web.read(f"{url}/slow")


def test_no_server_says_what_to_look_at() -> None:
    with pytest.raises(MachineLacks, match=r":9/x cannot be read: .*refused.*; check network and"):
        web.read("http://127.0.0.1:9/x")
    with pytest.raises(MachineLacks, match=r"refused; ask Ada$"):
        web.read("http://127.0.0.1:9/x", hint="ask Ada")


@pytest.mark.parametrize("given", ["a.tar.gz", "http://h:x/", "http://h/a b"])
def test_what_is_no_url_is_bad_input(given: str) -> None:
    with pytest.raises(BadInput, match=f"^'{given}' is not a URL: "):
        web.read(given)
