"""Uploads in parts (S3's multipart uploads): begun, resumed after a break, completed or aborted.

The bucket keeps what was uploaded. So an upload goes on from another machine, and nothing of it is stored here.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clusterra_contracts.identity import Moment
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from clusterra_gateway.files.buckets import Bucket
from clusterra_gateway.files.presigned import MAX_PUT_BYTES
from clusterra_gateway.files.s3_client import PATIENT_SECONDS, S3
from clusterra_gateway.http.requests.errors import Conflict, OutcomeUnknown, Unavailable

MIN_PART_BYTES = 5 * 1024**2
"""S3's bound on each part but the last one."""
MAX_PARTS = 10_000
"""S3's bound on the parts of an upload."""
PART_BYTES = 64 * 1024**2
"""The size of parts unless the file needs larger ones: a browser holds a part in memory to compute its SHA-256."""
_MIB = 1024**2
_MAX_NAMED = 10
"""The most numbers that an error names."""


class UploadedPart(BaseModel):
    """A part that the bucket has."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    number: int = Field(alias="PartNumber", ge=1, le=MAX_PARTS)
    size: int = Field(alias="Size", ge=0)
    etag: str = Field(alias="ETag")
    sha256: str | None = Field(None, alias="ChecksumSHA256")


class _Upload(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    key: str = Field(alias="Key")
    id: str = Field(alias="UploadId")
    begun_at: Moment = Field(alias="Initiated")


@dataclass(frozen=True)
class FoundUpload:
    """An upload that was begun, and neither completed nor aborted."""

    key: str
    id: str
    begun_at: Moment


@dataclass(frozen=True)
class PartPage:
    """Parts in the order of their numbers, and the number after which to read on."""

    parts: tuple[UploadedPart, ...]
    after: int | None


def part_bytes(size: int) -> int:
    """The size of the parts of a file: a whole number of MiB, so large that they are at most MAX_PARTS."""
    needed = -(-size // MAX_PARTS)
    return min(max(PART_BYTES, -(-needed // _MIB) * _MIB), MAX_PUT_BYTES)


async def begin(bucket: Bucket, key: str) -> str:
    """Begin an upload and return its id. Each of its parts must come with a SHA-256. Raises RequestError."""

    def ask(s3: S3) -> str:
        return s3.client.create_multipart_upload(Bucket=s3.bucket, Key=key, ChecksumAlgorithm="SHA256")["UploadId"]

    return await bucket.ask(ask)


async def unfinished(bucket: Bucket, folder: str, limit: int) -> tuple[FoundUpload, ...]:
    """Uploads to a folder, whose key ends in `/`, or to the file of this name, at most so many. Raises RequestError.

    The file is asked for by its key: MinIO lists uploads by a whole key only, and tells of no folder's.
    """
    file = folder.removesuffix("/")
    of_file, below = await asyncio.gather(_uploads(bucket, file, limit), _uploads(bucket, folder, limit))
    return (*(each for each in of_file if each.key == file), *below)[:limit]


async def _uploads(bucket: Bucket, prefix: str, limit: int) -> tuple[FoundUpload, ...]:

    def ask(s3: S3) -> tuple[FoundUpload, ...]:
        answer = s3.client.list_multipart_uploads(Bucket=s3.bucket, Prefix=prefix, MaxUploads=limit)
        found = []
        for each in answer.get("Uploads", ()):
            try:
                read = _Upload.model_validate(each)
            except ValidationError:
                continue
            found.append(FoundUpload(read.key, read.id, read.begun_at))
        return tuple(found)

    return await bucket.ask(ask)


async def list_parts(bucket: Bucket, key: str, upload: str, *, after: int = 0, limit: int = 1000) -> PartPage:
    """The parts that the bucket has of an upload, from a number on. Raises NotFound, RequestError."""

    def ask(s3: S3) -> PartPage:
        answer = s3.client.list_parts(
            Bucket=s3.bucket, Key=key, UploadId=upload, PartNumberMarker=after, MaxParts=limit
        )
        parts = tuple(UploadedPart.model_validate(each) for each in answer.get("Parts", ()))
        more = bool(answer.get("IsTruncated")) and bool(parts)
        return PartPage(parts, parts[-1].number if more else None)

    return await bucket.ask(ask)


async def complete(bucket: Bucket, key: str, upload: str, size: int, expected: Mapping[int, str] | None = None) -> str:
    """Make a file of `size` bytes of the uploaded parts, and return its ETag.

    The bucket's own list of parts decides. `expected` has the SHA-256 of each part, by its number, in base64. Raises
    Conflict while parts are missing or differ from those expected, NotFound, OutcomeUnknown where the server takes too
    long, RequestError.
    """
    parts: list[UploadedPart] = []
    after: int | None = 0
    while after is not None and len(parts) <= MAX_PARTS:
        page = await list_parts(bucket, key, upload, after=after)
        parts += page.parts
        after = page.after
    _check(parts, size)
    if expected is not None:
        _check_expected(parts, expected)
    made: list[Any] = [
        {"PartNumber": part.number, "ETag": part.etag}
        | ({} if part.sha256 is None else {"ChecksumSHA256": part.sha256})
        for part in parts
    ]

    def ask(s3: S3) -> str:
        answer = s3.patient.complete_multipart_upload(
            Bucket=s3.bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": made}
        )
        return answer["ETag"]

    try:
        async with asyncio.timeout(PATIENT_SECONDS):
            return await bucket.ask(ask)
    except (TimeoutError, Unavailable):
        raise OutcomeUnknown(
            "the server of the bucket has not said whether it made the file of its parts",
            hint="list the folder in a while: if the file is there, it is whole; if not, complete the upload again",
        ) from None


async def abort(bucket: Bucket, key: str, upload: str) -> None:
    """Forget an upload with its parts. Raises NotFound, RequestError."""

    def ask(s3: S3) -> None:
        s3.client.abort_multipart_upload(Bucket=s3.bucket, Key=key, UploadId=upload)

    await bucket.ask(ask)


def _check(parts: Sequence[UploadedPart], size: int) -> None:
    there = {part.number for part in parts}
    missing = [number for number in range(1, max(there, default=0) + 1) if number not in there]
    if missing:
        raise Conflict(f"{_parts_are(missing)} missing", hint="send what is missing, then complete the upload")
    # S3 says so, too, but not which parts; other servers would take them, and their files could not move to S3.
    small = [part.number for part in parts[:-1] if part.size < MIN_PART_BYTES]
    if small:
        raise Conflict(
            f"{_parts_are(small)} smaller than 5 MiB", hint="send each part but the last one with 5 MiB or more"
        )
    total = sum(part.size for part in parts)
    if not parts or total != size:
        raise Conflict(
            f"the upload has {total} bytes in {len(parts)} parts, and the file has {size}",
            hint="list the parts, send those that are missing, then complete the upload",
        )


def _check_expected(parts: Sequence[UploadedPart], expected: Mapping[int, str]) -> None:
    # A server that lists no checksums has compared each part with its own when it was sent.
    listed = {part.number: part.sha256 or expected.get(part.number) for part in parts}
    others = sorted(number for number in listed.keys() | expected.keys() if listed.get(number) != expected.get(number))
    if others:
        raise Conflict(
            f"{_parts_are(others)} not what the request names",
            hint="another program sends parts of this upload: begin one of your own",
        )


def _parts_are(numbers: Sequence[int]) -> str:
    named = ", ".join(map(str, numbers[:_MAX_NAMED])) + (", ..." if len(numbers) > _MAX_NAMED else "")
    return f"part {named} is" if len(numbers) == 1 else f"parts {named} are"
