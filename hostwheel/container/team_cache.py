"""A team's bucket of compiled objects, for a compile without network: fetched before, given after.

sccache reads its bucket while it compiles; in a container it cannot. The objects are the same in
both: `a/b/abc…` in its folder is `a/b/c/abc…` in a bucket (sccache's normalize_key).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from hostwheel.run import say

MOST = 5 * 1024**3  # bytes fetched, the newest first; sccache's own folder holds 10 GiB
AT_ONCE = 16
# For a folder sccache preprocesses otherwise than for a bucket, and its keys are others.
AS_A_BUCKET = {"SCCACHE_DIRECT": "false"}
OTHER_KINDS = ("SCCACHE_GCS_BUCKET", "SCCACHE_AZURE_CONNECTION_STRING", "SCCACHE_REDIS_ENDPOINT")


@dataclass(frozen=True, kw_only=True, slots=True)
class TeamCache:
    """`prefix` comes before every key, empty or with a slash at its end."""

    store: S3Store
    prefix: str
    writable: bool


def team_cache(env: Mapping[str, str]) -> TeamCache | None:
    """The bucket that sccache's own variables name; None without one."""
    for name in OTHER_KINDS:
        if name in env:
            say(f"warning: {name} is not used in a container, only a bucket of S3 is")
    bucket = env.get("SCCACHE_BUCKET")
    if not bucket:
        return None
    prefix = env.get("SCCACHE_S3_KEY_PREFIX", "").strip("/")
    return TeamCache(
        store=store(bucket, env),
        prefix=f"{prefix}/" if prefix else "",
        writable=env.get("SCCACHE_S3_RW_MODE", "READ_WRITE") != "READ_ONLY",
    )


def store(bucket: str, env: Mapping[str, str]) -> S3Store:
    """As sccache finds it; credentials come from AWS_*, which obstore reads itself."""
    plain = env.get("SCCACHE_S3_USE_SSL", "true") in ("false", "off", "0")
    endpoint = env.get("SCCACHE_ENDPOINT")
    if endpoint and "://" not in endpoint:
        endpoint = f"{'http' if plain else 'https'}://{endpoint}"
    return S3Store(
        bucket,
        endpoint=endpoint,
        region=env.get("SCCACHE_REGION", "us-east-1"),
        skip_signature=env.get("SCCACHE_S3_NO_CREDENTIALS") == "true",
        virtual_hosted_style_request=env.get("SCCACHE_S3_ENABLE_VIRTUAL_HOST_STYLE") == "true",
        client_options={"allow_http": plain},
    )


@contextmanager
def shared(team: TeamCache | None, folder: Path) -> Iterator[None]:
    """Have the team's objects in `folder` for what is done within, and give it the new ones.

    A bucket that fails costs compile time and a warning, never the build.
    """
    if team is None:
        yield
        return
    try:
        known = fetch(team, folder)
    except BaseError as error:
        say(f"warning: the team's compiler cache is not used: {error}")
        yield
        return
    yield
    try:
        give(team, folder, known)
    except BaseError as error:
        say(f"warning: new objects did not get into the team's compiler cache: {error}")


def fetch(team: TeamCache, folder: Path) -> frozenset[str]:
    """Put into `folder` what it lacks; the names of all that the bucket has."""
    pages = obstore.list(team.store, prefix=team.prefix or None)
    found = sorted(
        (each for page in pages for each in page), key=lambda each: each["last_modified"]
    )
    names = frozenset(each["path"].rpartition("/")[2] for each in found)
    wanted, room = [], MOST
    for each in reversed(found):
        room -= each["size"]
        name = each["path"].rpartition("/")[2]
        if room >= 0 and is_object(name) and not in_folder(folder, name).exists():
            wanted.append(name)
    in_parallel(lambda name: fetch_one(team, folder, name), wanted)
    return names


def fetch_one(team: TeamCache, folder: Path, name: str) -> None:
    target = in_folder(folder, name)
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = folder / f".{name}.new"
    try:
        fresh.write_bytes(obstore.get(team.store, in_bucket(team, name)).bytes())
        fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)


def give(team: TeamCache, folder: Path, known: frozenset[str]) -> None:
    if not team.writable:
        return
    names = {file.name for file in folder.glob("?/?/*") if is_object(file.name)}
    in_parallel(lambda name: give_one(team, folder, name), names - known)


def give_one(team: TeamCache, folder: Path, name: str) -> None:
    obstore.put(team.store, in_bucket(team, name), in_folder(folder, name).read_bytes())


def in_parallel(act: Callable[[str], None], names: Iterable[str]) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in pool.map(act, names):  # raises what one of them raised
            pass


def is_object(name: str) -> bool:
    """sccache's names are 64 hexadecimal digits; other files in a bucket are not ours to move."""
    return len(name) == 64 and not set(name) - set("0123456789abcdef")


def in_folder(folder: Path, name: str) -> Path:
    return folder / name[0] / name[1] / name


def in_bucket(team: TeamCache, name: str) -> str:
    return f"{team.prefix}{name[0]}/{name[1]}/{name[2]}/{name}"
