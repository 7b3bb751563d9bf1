"""S3: obstore with boto3's account of endpoint, region and credentials; boto3 for exact keys."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from obstore.auth.boto3 import Boto3CredentialProvider
from obstore.store import S3Store

from hostwheel.errors import BadInput, MachineLacks
from hostwheel.publish.bucket import Bucket, Stored
from hostwheel.publish.page import Page
from hostwheel.publish.store import CLIENT, RETRIES, Store

if TYPE_CHECKING:  # it is not there at run time
    from obstore.store import ClientConfig

ANY_REGION = "us-east-1"  # stores other than AWS do not look at it
CONFIG = Config(
    retries={"mode": "standard", "max_attempts": 8},
    max_pool_connections=32,  # pages are read several at once
    s3={"addressing_style": "path"},  # the only one that every S3 store answers to
    request_checksum_calculation="when_required",  # older stores refuse newer checksums
    response_checksum_validation="when_required",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExactKeys:
    """boto3's client, which leaves keys as they are. `prefix` is empty or ends in a slash."""

    client: Any
    bucket: str
    prefix: str

    def put(self, page: Page) -> None:
        with answering(self.bucket):
            self.client.put_object(
                Bucket=self.bucket,
                Key=self.prefix + page.key,
                Body=page.body,
                ContentType=page.content_type,
                CacheControl=page.cache_control,
            )

    def read(self, key: str) -> bytes | None:
        with answering(self.bucket):
            try:
                found = self.client.get_object(Bucket=self.bucket, Key=self.prefix + key)
            except self.client.exceptions.NoSuchKey:
                return None
            return bytes(found["Body"].read())

    def list(self, prefix: str) -> Iterator[Stored]:
        pages = self.client.get_paginator("list_objects_v2")
        with answering(self.bucket):
            for page in pages.paginate(Bucket=self.bucket, Prefix=self.prefix + prefix):
                for found in page.get("Contents", ()):
                    key = str(found["Key"]).removeprefix(self.prefix)
                    yield Stored(key=key, size=found["Size"], modified=found["LastModified"])

    def delete(self, key: str) -> None:
        with answering(self.bucket):
            self.client.delete_object(Bucket=self.bucket, Key=self.prefix + key)


@contextmanager
def answering(bucket: str) -> Iterator[None]:
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        raise MachineLacks(
            f"s3://{bucket}: {code(error)}; see that the address and the credentials are right, "
            "and run it again"
        ) from None


def code(error: Exception) -> str:
    """S3's own word for it, such as AccessDenied; what boto3 says where nothing answered."""
    if isinstance(error, ClientError):
        return str(error.response.get("Error", {}).get("Code", "an answer without a code"))
    return str(error)


def open_s3(url: str, endpoint: str | None) -> Bucket:
    """`s3://BUCKET/PREFIX`. BadInput without a bucket, MachineLacks without credentials."""
    parts = urlsplit(url)
    prefix = parts.path.strip("/")
    if not parts.netloc:
        raise BadInput(f"{url}: names no bucket: expected s3://BUCKET or s3://BUCKET/PREFIX")
    try:
        session = boto3.Session()
        if session.get_credentials() is None:
            raise MachineLacks(
                f"{url}: this machine has no credentials for it: set AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
            )
        region = session.region_name or ANY_REGION
        client = session.client("s3", endpoint_url=endpoint, region_name=region, config=CONFIG)
        found = client.meta.endpoint_url
        options: ClientConfig = {**CLIENT, "allow_http": found.startswith("http://")}
        store = S3Store(
            parts.netloc,
            prefix=prefix or None,
            aws_endpoint_url_s3=found,  # `endpoint` gives way to the environment
            virtual_hosted_style_request=False,
            region=region,
            credential_provider=Boto3CredentialProvider(session),
            client_options=options,
            retry_config=RETRIES,
        )
    except (BotoCoreError, ValueError) as error:
        raise BadInput(f"{url}: cannot be opened: {error}; set it up as for aws or boto3") from None
    exact = ExactKeys(client=client, bucket=parts.netloc, prefix=f"{prefix}/" if prefix else "")
    return Store(url=url.rstrip("/"), store=store, exact=exact)
