"""Buckets behind obstore: folders, S3, Google Cloud Storage, Azure. boto3 only for `s3_keys`."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, MemoryStore, ObjectStore, from_url

from hostwheel.errors import BadInput, MachineLacks
from hostwheel.publish.address import local_path, scheme_of
from hostwheel.publish.bucket import Bucket, Stored
from hostwheel.publish.page import Page

if TYPE_CHECKING:  # they are not there at run time
    from obstore.store import ClientConfig, RetryConfig

# Per request. obstore's own 30 s are too short to send 100 MB over a slow line.
CLIENT: "ClientConfig" = {
    "timeout": timedelta(minutes=30),
    "connect_timeout": timedelta(seconds=10),
}
# What is tried again, with back-off from 0.1 s: server errors, lost connections.
RETRIES: "RetryConfig" = {"max_retries": 8, "retry_timeout": timedelta(minutes=3)}
CODE = re.compile(r"<Code>(\w+)</Code>")


class Keys(Protocol):
    """Exact keys, as obstore does not have them: it drops a slash at the end."""

    def put(self, page: Page) -> None: ...
    def read(self, key: str) -> bytes | None: ...
    def list(self, prefix: str) -> Iterator[Stored]: ...
    def delete(self, key: str) -> None: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Store:
    """A bucket or folder. `exact` is for keys with a slash at the end, None where none can be.

    A folder keeps neither content type nor cache header (`described`).
    """

    url: str
    store: ObjectStore
    exact: Keys | None = None
    described: bool = True

    @property
    def slashes(self) -> bool:
        return self.exact is not None

    def create(self, page: Page) -> bool:
        with self.answering(page.key):
            try:
                self.write(page, "create")
            except AlreadyExistsError:
                return False
        return True

    def put(self, page: Page) -> None:
        with self.answering(page.key):
            if page.key.endswith("/"):
                self.keys(page.key).put(page)
            else:
                self.write(page, "overwrite")

    def write(self, page: Page, mode: str) -> None:
        said = {"Content-Type": page.content_type, "Cache-Control": page.cache_control}
        # In one request, whatever the size: Ceph ignores conditions of a multipart upload.
        self.store.put(
            page.key,
            page.body,
            mode="create" if mode == "create" else "overwrite",
            attributes=said if self.described else None,
            use_multipart=False,
        )

    def read(self, key: str) -> bytes | None:
        with self.answering(key):
            if key.endswith("/"):
                return self.keys(key).read(key)
            try:
                return bytes(self.store.get(key).bytes())
            except FileNotFoundError:
                return None

    def exists(self, key: str) -> bool:
        with self.answering(key):
            try:
                self.store.head(key)
            except FileNotFoundError:
                return False
        return True

    def list(self, prefix: str) -> Iterator[Stored]:
        with self.answering(prefix):
            if self.exact:
                yield from self.exact.list(prefix)
                return
            for chunk in self.store.list(prefix or None):
                for found in chunk:
                    yield Stored(
                        key=found["path"], size=found["size"], modified=found["last_modified"]
                    )

    def delete(self, key: str) -> None:
        with self.answering(key):
            if key.endswith("/"):
                self.keys(key).delete(key)
            else:
                self.store.delete(key)

    def keys(self, key: str) -> Keys:
        if self.exact is None:
            raise BadInput(f"{self.url}: cannot hold {key}: its keys do not end in a slash")
        return self.exact

    @contextmanager
    def answering(self, key: str) -> Iterator[None]:
        """Say what a store answers that is no answer, without obstore's pages of detail."""
        try:
            yield
        except FileNotFoundError as error:  # of a write: the bucket itself
            raise BadInput(f"{self.url}: {reason(error)}; make the bucket first") from None
        except (BaseError, OSError) as error:
            raise MachineLacks(
                f"{self.url}: no use of {key or 'a listing'}: {reason(error)}; "
                f"{advice(self.url)}, and run it again"
            ) from None


def advice(url: str) -> str:
    if url.startswith("file:"):
        return "see that the disk has room and that you may write there (df, ls -ld)"
    return "see that the address and the credentials are right"


def reason(error: Exception) -> str:
    """The first line; of S3's answer, which is XML, the code alone."""
    line = first_line(error)
    code = CODE.search(str(error))
    return f"{line.partition('<')[0].rstrip(': ')}: {code[1]}" if code else line.partition("<?")[0]


def first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def new_bucket(where: str, endpoint: str | None = None) -> Bucket:
    """As `open_bucket`; a folder that is not there yet is made."""
    if scheme_of(where) == "file" and not (folder := local_path(where)).exists():
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MachineLacks(f"{folder}: cannot be made: {error.strerror}") from None
    return open_bucket(where, endpoint)


def would_be_bucket(where: str, endpoint: str | None = None) -> Bucket:
    """As `new_bucket` gives it, to look at: a folder that is not there is empty, and not made."""
    if scheme_of(where) == "file" and not (folder := local_path(where).absolute()).exists():
        return Store(url=folder.as_uri(), store=MemoryStore(), described=False)
    return open_bucket(where, endpoint)


def open_bucket(where: str, endpoint: str | None = None) -> Bucket:
    """A bucket by its URL, or a folder. BadInput for anything else.

    S3's endpoint is `endpoint`, else what boto3 takes: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or
    the profile in ~/.aws/config; credentials and region likewise.
    """
    scheme = scheme_of(where)
    if scheme == "file":
        return open_folder(local_path(where))
    if scheme == "s3":
        from hostwheel.publish.s3 import open_s3  # late: boto3 takes long to import

        return open_s3(where, endpoint)
    try:
        store = from_url(where, client_options=CLIENT, retry_config=RETRIES)
    except (BaseError, ValueError) as error:
        raise BadInput(f"{where}: cannot be opened: {first_line(error)}") from None
    return Store(url=where.rstrip("/"), store=store)


def open_folder(path: Path) -> Bucket:
    """obstore writes beside, then links (create) or renames (overwrite)."""
    folder = path.absolute()
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder}: is no folder; give the one that the bucket is, or its URL")
    if not folder.is_dir():
        raise BadInput(f"{folder}: no such folder; `hostwheel publish OUT --to URL` makes one")
    return Store(url=folder.as_uri(), store=LocalStore(folder), described=False)
