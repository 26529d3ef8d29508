"""Presigned URLs: what a client may do with one object, signed, so that it needs no keys.

The signature of an upload covers its length and its checksum: S3 takes these bytes and no others. An installation has
bounds of how long URLs live, and how large files are.
"""

import base64
import binascii
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal
from urllib.parse import quote

from clusterra_contracts.identity import now
from pydantic import AfterValidator, Field

from clusterra_gateway.files.buckets import Bucket
from clusterra_gateway.files.s3_client import S3, unavailable
from clusterra_gateway.http.requests.errors import InvalidRequest, TooLarge


@dataclass(frozen=True)
class Bounds:
    """The lifetime of a URL unless a client wants another one, the longest one, and the largest file."""

    default_seconds: int
    max_seconds: int
    max_bytes: int

    def lifetime(self, wanted: int | None) -> int:
        """The lifetime of a URL. Raises InvalidRequest for a longer one than is allowed."""
        if wanted is None:
            return min(self.default_seconds, self.max_seconds)
        if wanted > self.max_seconds:
            raise InvalidRequest(
                f"a URL may live for {self.max_seconds} s here, not for {wanted} s",
                hint="ask again when it has ended: an upload in parts goes on",
            )
        return wanted

    def within(self, size: int) -> int:
        """The size of a file. Raises TooLarge for a larger one than is allowed."""
        if size > self.max_bytes:
            raise TooLarge(f"a file may have {self.max_bytes} bytes here", hint="send it in several files")
        return size


MAX_PUT_BYTES = 5 * 1024**3
"""S3's bound on an upload in one request, and on a part."""
CHECKSUM = "x-amz-checksum-sha256"
_SHA256_BYTES = 32


def _sha256(text: str) -> str:
    try:
        digest = bytes.fromhex(text) if len(text) == 2 * _SHA256_BYTES else base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        digest = b""
    if len(digest) != _SHA256_BYTES:
        raise ValueError("a SHA-256 is 64 hexadecimal digits, as sha256sum prints it, or its 32 bytes in base64")
    return base64.b64encode(digest).decode()


Sha256 = Annotated[
    str,
    Field(max_length=64, json_schema_extra={"pattern": "^([0-9a-fA-F]{64}|[A-Za-z0-9+/]{43}=)$"}),
    AfterValidator(_sha256),
]
"""A SHA-256 in hexadecimal digits or base64; checked, it is in base64, as S3 writes it."""


@dataclass(frozen=True)
class SignedUrl:
    """A URL, the headers that its request must have, and when it ends."""

    method: Literal["GET", "PUT"]
    url: str
    headers: dict[str, str]
    expires_at: datetime


@dataclass(frozen=True)
class Content:
    """What is uploaded."""

    size: int
    sha256: str
    """In base64."""

    @property
    def headers(self) -> dict[str, str]:
        """The signed headers of the upload."""
        return {"Content-Length": str(self.size), CHECKSUM: self.sha256}

    @property
    def parameters(self) -> dict[str, Any]:
        """The same, as botocore names them."""
        return {"ContentLength": self.size, "ChecksumSHA256": self.sha256}


@dataclass(frozen=True)
class Part:
    """A part of an upload, with its number from 1 on."""

    number: int
    content: Content


async def signed_put(bucket: Bucket, key: str, content: Content, seconds: int) -> SignedUrl:
    """The URL that uploads a whole object. Raises RequestError."""
    end, seconds = _lifetime(bucket, seconds)
    request = {"Bucket": bucket.name, "Key": key, **content.parameters}
    url = await bucket.sign(lambda s3: _url(s3, "put_object", request, seconds))
    return SignedUrl("PUT", url, content.headers, end)


async def signed_get(bucket: Bucket, key: str, file_name: str, seconds: int) -> SignedUrl:
    """The URL that downloads an object, which browsers save under this name. Raises RequestError."""
    end, seconds = _lifetime(bucket, seconds)
    request = {
        "Bucket": bucket.name,
        "Key": key,
        # Never shown in a page: a file of HTML would run its scripts in the bucket's origin.
        "ResponseContentDisposition": f"attachment; filename*=UTF-8''{quote(file_name, safe='')}",
    }
    url = await bucket.sign(lambda s3: _url(s3, "get_object", request, seconds))
    return SignedUrl("GET", url, {}, end)


async def signed_parts(bucket: Bucket, key: str, upload: str, parts: list[Part], seconds: int) -> list[SignedUrl]:
    """The URLs that upload parts, in their order. Raises RequestError."""
    end, seconds = _lifetime(bucket, seconds)

    def sign(s3: S3) -> list[str]:
        same = {"Bucket": s3.bucket, "Key": key, "UploadId": upload}
        return [
            _url(s3, "upload_part", {**same, "PartNumber": part.number, **part.content.parameters}, seconds)
            for part in parts
        ]

    urls = await bucket.sign(sign)
    return [SignedUrl("PUT", url, part.content.headers, end) for url, part in zip(urls, parts, strict=True)]


def _lifetime(bucket: Bucket, seconds: int) -> tuple[datetime, int]:
    """When a URL ends: no later than the credentials that sign it."""
    begin = now()
    end = min(begin + timedelta(seconds=seconds), bucket.credentials_end or datetime.max.replace(tzinfo=begin.tzinfo))
    left = int((end - begin).total_seconds())
    if left < 1:
        raise unavailable("the role of the bucket has just ended")
    return end, left


def _url(s3: S3, operation: str, request: dict[str, Any], seconds: int) -> str:
    return s3.signer.generate_presigned_url(operation, Params=request, ExpiresIn=seconds)
