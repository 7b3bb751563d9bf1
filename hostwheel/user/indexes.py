"""Where the user's pip gets packages from, said to uv, which does not read pip's settings."""

import ast
import re
import sys
from collections.abc import Iterator, Mapping

from hostwheel.run import capture

SETTING = re.compile(
    r"^(?P<section>[^.\s]+)\.(?P<name>[\w-]+)=(?P<value>'.*'|\".*\")$", re.MULTILINE
)
SECTIONS = ("global", "download", ":env:")  # a later one overrides
TRUE = ("y", "yes", "t", "true", "on", "1")  # pip's strtobool
OF_UV = ("UV_INDEX", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS")


def uv_index(env: Mapping[str, str], settings: Mapping[str, str]) -> tuple[str, ...]:
    """uv's options for pip's indexes; none where the user has told uv itself."""
    told = any(env.get(name) for name in OF_UV)
    return () if told else tuple(options(settings))


def pip_settings(env: Mapping[str, str]) -> Mapping[str, str]:
    """pip's own settings, from its files and the environment, by the name of the option."""
    return read_settings(capture((sys.executable, "-m", "pip", "config", "list"), env=env))


def read_settings(said: str) -> Mapping[str, str]:
    """What `pip config list` prints."""
    found = [match.groupdict() for match in SETTING.finditer(said)]
    return {
        each["name"]: str(ast.literal_eval(each["value"]))
        for section in SECTIONS
        for each in found
        if each["section"] == section
    }


def options(settings: Mapping[str, str]) -> Iterator[str]:
    """uv asks one index after the other; pip, and so uv here, takes the best of all."""
    yield from ("--index-strategy", "unsafe-best-match")
    for value in settings.get("find-links", "").split():
        yield from ("--find-links", value)
    if settings.get("no-index", "").lower() in TRUE:
        yield "--no-index"
        return
    if url := settings.get("index-url"):
        yield from ("--default-index", url)
    for url in settings.get("extra-index-url", "").split():
        yield from ("--index", url)
    for host in settings.get("trusted-host", "").split():
        yield from ("--allow-insecure-host", host)


def uv_environment(env: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """`env` with pip's certificates and proxy for uv, where it has none of its own."""
    given = {"SSL_CERT_FILE": settings.get("cert"), "ALL_PROXY": settings.get("proxy")}
    return {**{name: value for name, value in given.items() if value}, **env}
