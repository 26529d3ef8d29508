"""Copies within a bucket, which S3 makes without the bytes passing us: large objects in parts, several at once."""

import asyncio
from contextlib import suppress
from typing import Any

import s3transfer.manager
from s3transfer.exceptions import CancelledError
from s3transfer.futures import TransferFuture

from clusterra_gateway.files.buckets import Bucket
from clusterra_gateway.files.objects import Head
from clusterra_gateway.files.s3_client import S3
from clusterra_gateway.http.requests.errors import Unavailable

COPY_SECONDS = 50.0
"""How long a copy may take: the client of the request waits little longer (`HTTP_SECONDS`)."""
PART_BYTES = 256 * 1024**2
"""Above this size an object is copied in parts. A single request takes 5 GiB, but then as one long wait."""
PARTS_AT_ONCE = 10


async def copy_object(bucket: Bucket, source: str, target: str, known: Head) -> None:
    """Copy an object as it was when it was looked at. A copy that takes too long is undone. Raises RequestError."""
    config = s3transfer.manager.TransferConfig(
        multipart_threshold=PART_BYTES + 1, multipart_chunksize=PART_BYTES, max_request_concurrency=PARTS_AT_ONCE
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
