"""What a URL names, over http(s):// or from file://: all that hostwheel itself asks the network.

urllib, because it takes proxy and private CA from where pip and uv do (HTTPS_PROXY, no_proxy,
SSL_CERT_FILE), and asks for a URL as it was given: obstore drops a slash at its end.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, InvalidURL
from typing import IO
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from hostwheel.errors import BadInput, MachineLacks

TIMEOUT_S = 60.0  # without a byte
LIMIT_BYTES = 256 << 20  # of what is held in memory
BLOCK_BYTES = 1 << 20
ABSENT = (403, 404, 410)  # S3 says 403 of what is not there to who may not list
HINT = "check network and proxy (HTTPS_PROXY, SSL_CERT_FILE)"


class Absent(BadInput):
    """The server has nothing under that URL, or nothing for us."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What came: its type without parameters, the bytes announced if they were, and the bytes."""

    content_type: str
    size: int | None
    blocks: Iterator[bytes]


@contextmanager
def opened(url: str, *, accept: str = "*/*", hint: str = HINT) -> Iterator[Answer]:
    """Absent for a 403, 404 or 410; BadInput for what is no URL; MachineLacks, with `hint`, for all
    else that keeps the bytes from coming, be it halfway."""
    try:
        response = urlopen(Request(url, headers={"Accept": accept}), timeout=TIMEOUT_S)
    except HTTPError as error:
        error.close()
        if error.code in ABSENT:
            raise Absent(f"{url}: {error.code} {error.reason}") from None
        raise unreachable(url, f"the server says {error.code} {error.reason}", hint) from None
    except (ValueError, InvalidURL) as error:
        raise BadInput(f"{url!r} is not a URL: {error}") from None
    except (OSError, HTTPException) as error:
        raise unreachable(url, str(getattr(error, "reason", "") or error), hint) from None
    with response:
        length = response.headers.get("Content-Length", "")
        size = int(length) if length.isdecimal() else None
        blocks = received(response, url, size, hint)
        yield Answer(content_type=response.headers.get_content_type(), size=size, blocks=blocks)


def received(response: IO[bytes], url: str, size: int | None, hint: str) -> Iterator[bytes]:
    """The body; http.client itself says nothing of one that ends early."""
    total = 0
    try:
        while block := response.read(BLOCK_BYTES):
            total += len(block)
            yield block
    except (OSError, HTTPException) as error:
        why = f"the connection broke after {total} bytes ({error!r})"
        raise unreachable(url, why, hint) from None
    if size is not None and total < size:
        raise unreachable(url, f"the connection ended after {total} of {size} bytes", hint)


def read(
    url: str, *, accept: str = "*/*", hint: str = HINT, limit_bytes: int = LIMIT_BYTES
) -> bytes:
    """All of it, as `opened` has it; BadInput for more than `limit_bytes`."""
    held = bytearray()
    with opened(url, accept=accept, hint=hint) as answer:
        for block in answer.blocks:
            held += block
            if len(held) > limit_bytes:
                raise BadInput(f"{url}: more than {limit_bytes:,} bytes; is it the right address?")
    return bytes(held)


def unreachable(url: str, why: str, hint: str) -> MachineLacks:
    return MachineLacks(f"{url} cannot be read: {why}; {hint}")
