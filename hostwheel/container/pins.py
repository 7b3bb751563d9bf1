"""Digests of base images, asked from their registry over HTTPS and written into images.toml."""

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from email.message import Message
from http.client import HTTPMessage
from pathlib import Path

from hostwheel.container.bases import DIGEST, Base, read_bases
from hostwheel.errors import BadInput, MachineLacks

# The index of an image for several machines, else the manifest of one: what engines pull by.
ACCEPTED = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
PATIENCE = 60  # seconds
CHALLENGE = re.compile(r'(\w+)="([^"]*)"')


def pin_bases(file: Path) -> tuple[str, ...]:
    """Look up the digest of every base's tag and write what is new; one line on each base.

    Nothing is written unless every lookup succeeded.
    """
    text, told = file.read_text(encoding="utf-8"), []
    for base in read_bases(file).values():
        found = digest_of(base)
        told.append(f"{base.name}: {'as before' if found == base.digest else found}")
        text = with_digest(text, base, found)
    file.write_text(text, encoding="utf-8")
    return tuple(told)


def with_digest(text: str, base: Base, digest: str) -> str:
    """The file's text with the base's digest, in place of the old one or of the reason."""
    start = re.search(rf"^\[base\.\"?{re.escape(base.name)}\"?\].*\n", text, re.MULTILINE)
    if start is None:
        raise BadInput(f"images.toml: [base.{base.name}] is not a heading of its own")
    rest = text[start.end() :]
    line = f'digest = "{digest}"'
    return text[: start.end()] + re.sub(
        r"^(digest|unpinned) = .*$", line, rest, count=1, flags=re.MULTILINE
    )


def digest_of(base: Base, scheme: str = "https") -> str:
    """The sha256 that the registry gives for the base's tag. MachineLacks when it cannot be asked.

    The distribution API (OCI distribution-spec): HEAD of the manifest, after a token if asked for.
    """
    host, _, name = base.repository.partition("/")
    url = f"{scheme}://{host}/v2/{name}/manifests/{base.tag or 'latest'}"
    try:
        headers = head(url, token=None)
    except urllib.error.HTTPError as error:
        if error.code != 401:
            raise unanswered(base, f"HTTP {error.code}") from None
        headers = with_token(base, url, error.headers)
    except OSError as error:
        raise unanswered(base, str(error)) from None
    digest = headers.get("Docker-Content-Digest", "")
    if not re.fullmatch(DIGEST, digest):
        raise unanswered(base, f"no digest in its answer, but {digest!r}")
    return digest


def with_token(base: Base, url: str, headers: Message) -> HTTPMessage:
    asked = dict(CHALLENGE.findall(headers.get("WWW-Authenticate", "")))
    if "realm" not in asked:
        raise unanswered(base, "it asks for a password")
    query = {key: asked[key] for key in ("service", "scope") if key in asked}
    try:
        with urllib.request.urlopen(
            f"{asked['realm']}?{urllib.parse.urlencode(query)}", timeout=PATIENCE
        ) as answer:
            said = json.load(answer)
        return head(url, token=said.get("token") or said.get("access_token"))
    except (OSError, ValueError) as error:
        raise unanswered(base, str(error)) from None


def head(url: str, token: str | None) -> HTTPMessage:
    headers = {"Accept": ACCEPTED, **({"Authorization": f"Bearer {token}"} if token else {})}
    request = urllib.request.Request(url, method="HEAD", headers=headers)
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        found: HTTPMessage = answer.headers
    return found


def unanswered(base: Base, why: str) -> MachineLacks:
    return MachineLacks(
        f"the registry does not say the digest of {base.image}: {why}; images.toml is as it was: "
        "run nox -s pins where the registry can be reached (HTTPS_PROXY and SSL_CERT_FILE count)"
    )
