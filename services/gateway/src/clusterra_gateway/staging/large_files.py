"""Copies a large file to the bucket by a multipart upload. After a break it resumes with the missing parts."""

from contextlib import suppress

from clusterra_contracts.rpc.edge_staging import (
    DigestFiles,
    FileParts,
    FileUpload,
    FoundFile,
    PartRange,
    SendFiles,
    SignedPart,
    StagingProblem,
)
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.files.buckets import Bucket
from clusterra_gateway.files.presigned import Content, Part, signed_parts
from clusterra_gateway.files.uploads import abort, begin, complete, list_parts, part_bytes
from clusterra_gateway.http.requests.errors import Conflict, NotFound
from clusterra_gateway.staging.staging import OpenUpload
from clusterra_gateway.staging.turn import FilePaused, Turn

PARTS_AT_ONCE = 4


async def send_in_parts(
    turn: Turn, bucket: Bucket, key: str, file: FoundFile, url_seconds: int
) -> StagingProblem | None:
    """Copy a file. Returns why it cannot be copied, or None.

    Raises Paused, TurnOver, Lost, RequestError, StoreError.
    """
    upload = await _upload(turn, bucket, key, file)
    size = part_bytes(file.size)
    try:
        there = await _numbers(bucket, upload)
        missing = [number for number in range(1, -(-file.size // size) + 1) if number not in there]
        for start in range(0, len(missing), PARTS_AT_ONCE):
            numbers = missing[start : start + PARTS_AT_ONCE]
            problem = await _send(turn, bucket, upload, file, (numbers, size, url_seconds))
            if problem is not None:
                return problem
            await turn.step_done()
        await turn.claim()
        await complete(bucket, upload.key, upload.id, file.size)
    except NotFound:
        # Somebody has aborted it, such as a rule of the bucket.
        await turn.note(upload=None)
        raise FilePaused(f"{file.path}: its upload is gone, and begins anew") from None
    except Conflict as conflict:
        return StagingProblem(path=file.path, detail=conflict.detail[:300], transient=True)
    return None


async def _upload(turn: Turn, bucket: Bucket, key: str, file: FoundFile) -> OpenUpload:
    """The upload that an earlier turn began of this very file, or a new one."""
    known = turn.staging.upload
    if known is not None:
        if (known.path, known.size, known.modified_ns) == (file.path, file.size, file.modified_ns):
            return known
        with suppress(NotFound):
            await abort(bucket, known.key, known.id)
    upload = OpenUpload(
        id=await begin(bucket, key), path=file.path, key=key, size=file.size, modified_ns=file.modified_ns
    )
    await turn.note(upload=upload)
    return upload


async def _numbers(bucket: Bucket, upload: OpenUpload) -> set[int]:
    """The numbers of the parts that the bucket has. Raises NotFound, RequestError."""
    numbers: set[int] = set()
    after: int | None = 0
    while after is not None:
        page = await list_parts(bucket, upload.key, upload.id, after=after)
        numbers |= {part.number for part in page.parts}
        after = page.after
    return numbers


async def _send(
    turn: Turn, bucket: Bucket, upload: OpenUpload, file: FoundFile, parts: tuple[list[int], int, int]
) -> StagingProblem | None:
    numbers, size, url_seconds = parts
    ranges = tuple(
        PartRange(offset=(number - 1) * size, length=min(size, file.size - (number - 1) * size)) for number in numbers
    )
    folder, about = turn.staging.folder, f"{upload.id}/{numbers[0]}"
    found = file.model_dump(include={"path", "size", "modified_ns"})
    try:
        told = await turn.staged(DigestFiles(folder=folder, files=(FileParts(**found, parts=ranges),)), about)
        if told.problems:
            return told.problems[0]
        contents = [
            Part(number, Content(each.length, digest))
            for number, each, digest in zip(numbers, ranges, told.sums[0].sha256, strict=True)
        ]
        signed = await signed_parts(bucket, upload.key, upload.id, contents, url_seconds)
        uploads = tuple(
            SignedPart(**each.model_dump(), url=url.url, headers=url.headers)
            for each, url in zip(ranges, signed, strict=True)
        )
        sent = await turn.staged(SendFiles(folder=folder, files=(FileUpload(**found, parts=uploads),)), about)
    except RpcFailed as failed:
        return StagingProblem(path=file.path, detail=failed.error.detail[:300])
    return sent.problems[0] if sent.problems else None
