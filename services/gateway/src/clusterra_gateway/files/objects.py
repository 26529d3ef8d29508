"""Objects of a bucket: lists of folders, deletes, copies, and what is known of one object.

S3 copies within a bucket itself, without the bytes passing us: large objects in parts, several at once.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import s3transfer.manager
from clusterra_contracts.identity import Moment
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from s3transfer.exceptions import CancelledError
from s3transfer.futures import TransferFuture

from clusterra_gateway.files.buckets import Bucket
from clusterra_gateway.files.s3_client import S3, misconfigured
from clusterra_gateway.http.requests.errors import InvalidRequest, NotFound, Unavailable

MAX_LISTED = 1000
"""The most entries of a page, which S3 bounds, too."""


class _Read(BaseModel):
    """A record in S3's answer."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class ListedObject(_Read):
    """An object as a list shows it."""

    key: str = Field(alias="Key")
    size: int = Field(alias="Size", ge=0)
    modified_at: Moment = Field(alias="LastModified")
    etag: str = Field("", alias="ETag")


class _ListedPrefix(_Read):
    prefix: str = Field(alias="Prefix")


class _Head(_Read):
    size: int = Field(alias="ContentLength", ge=0)
    etag: str = Field(alias="ETag")
    modified_at: Moment = Field(alias="LastModified")
    content_type: str = Field("binary/octet-stream", alias="ContentType")


@dataclass(frozen=True)
class Head:
    """What is known of an object."""

    size: int
    etag: str
    modified_at: datetime
    content_type: str


@dataclass(frozen=True)
class ObjectPage:
    """A page of a list: its objects, the prefixes of folders in it, and how to read on."""

    objects: tuple[ListedObject, ...]
    prefixes: tuple[str, ...]
    unreadable: int
    """How many records of the answer could not be read."""
    cursor: str | None


@dataclass(frozen=True)
class ListRequest:
    """Which page: keys that begin with the prefix; with `recursive` those in folders of it, too."""

    prefix: str
    recursive: bool
    limit: int
    cursor: str | None


async def list_objects(bucket: Bucket, wanted: ListRequest) -> ObjectPage:
    """A page of a list. Raises RequestError."""
    if wanted.cursor is not None and not wanted.cursor.isprintable():
        # A server would have to repeat it in XML, which has no such characters, and fails.
        raise InvalidRequest("the cursor is not one of this list", hint="list from the beginning")
    request: dict[str, Any] = {"Bucket": bucket.name, "Prefix": wanted.prefix, "MaxKeys": wanted.limit}
    if not wanted.recursive:
        request["Delimiter"] = "/"
    if wanted.cursor is not None:
        request["ContinuationToken"] = wanted.cursor

    def read(s3: S3) -> ObjectPage:
        answer = s3.client.list_objects_v2(**request)
        objects, wrong = _records(ListedObject, answer.get("Contents", ()))
        prefixes, wrong_prefixes = _records(_ListedPrefix, answer.get("CommonPrefixes", ()))
        return ObjectPage(
            objects,
            tuple(each.prefix for each in prefixes),
            wrong + wrong_prefixes,
            answer.get("NextContinuationToken") if answer.get("IsTruncated") else None,
        )

    return await bucket.ask(read)


async def head(bucket: Bucket, key: str) -> Head:
    """What is known of an object. Raises NotFound, RequestError."""

    def read(s3: S3) -> Head:
        try:
            found = _Head.model_validate(s3.client.head_object(Bucket=s3.bucket, Key=key))
        except ValidationError:
            raise misconfigured("no answer of S3") from None
        return Head(found.size, found.etag, found.modified_at, found.content_type)

    return await bucket.ask(read)


async def find(bucket: Bucket, key: str) -> Head | None:
    """The same; None for an object that does not exist. Raises RequestError."""
    try:
        return await head(bucket, key)
    except NotFound:
        return None


async def delete_objects(bucket: Bucket, keys: Sequence[str]) -> dict[str, str]:
    """Delete at most MAX_LISTED objects. Returns the keys that were not deleted, each with S3's word for the reason.

    Deleting an object that does not exist succeeds, as in S3. Raises RequestError.
    """
    objects: list[Any] = [{"Key": key} for key in keys]

    def delete(s3: S3) -> dict[str, str]:
        answer = s3.client.delete_objects(Bucket=s3.bucket, Delete={"Objects": objects, "Quiet": True})
        return {str(each.get("Key", "")): str(each.get("Code", "unknown")) for each in answer.get("Errors", ())}

    return await bucket.ask(delete)


def _records[R: _Read](model: type[R], listed: Sequence[object]) -> tuple[tuple[R, ...], int]:
    """The records that can be read, and how many cannot."""
    read: list[R] = []
    for each in listed:
        try:
            read.append(model.model_validate(each))
        except ValidationError:
            continue
    return tuple(read), len(listed) - len(read)


COPY_SECONDS = 50.0
"""How long a copy may take: the client of the request waits little longer (`HTTP_SECONDS`)."""
COPY_PART_BYTES = 256 * 1024**2
"""Above this size an object is copied in parts. A single request takes 5 GiB, but then as one long wait."""
PARTS_AT_ONCE = 10


async def copy_object(bucket: Bucket, source: str, target: str, known: Head) -> None:
    """Copy an object as it was when it was looked at. A copy that takes too long is undone. Raises RequestError."""
    config = s3transfer.manager.TransferConfig(
        multipart_threshold=COPY_PART_BYTES + 1,
        multipart_chunksize=COPY_PART_BYTES,
        max_request_concurrency=PARTS_AT_ONCE,
    )
    running: list[TransferFuture] = []

    def copy(s3: S3) -> None:
        arguments: dict[str, Any] = {
            "CopySourceIfMatch": known.etag,
            # The parts of a large object would lose its type.
            "ContentType": known.content_type,
            "MetadataDirective": "REPLACE",
        }
        with s3transfer.manager.TransferManager(s3.client, config) as manager:
            running.append(manager.copy({"Bucket": s3.bucket, "Key": source}, s3.bucket, target, arguments))
            with suppress(CancelledError):  # the request below is answered
                running[0].result()

    # Not cancelled with the request: its thread would go on, and nobody would abort the parts.
    work = asyncio.create_task(bucket.ask(copy))
    done, _ = await asyncio.wait([work], timeout=COPY_SECONDS)
    if not done:
        for each in running:
            await asyncio.to_thread(each.cancel)
        with suppress(Exception):
            await work
        raise Unavailable(
            f"the copy takes longer than {COPY_SECONDS:g} s, so it was undone",
            hint="download the file and upload it under the new name",
        )
    await work
