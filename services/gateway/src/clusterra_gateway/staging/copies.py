"""Copies the inputs of a job to its working directory, and its outputs to the bucket, in the order of their paths.

The staging has the path of the last file that is done, and the bucket has the parts of a large file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clusterra_contracts.rpc.edge_staging import (
    MAX_FOUND,
    DigestFiles,
    FetchFiles,
    FileDownload,
    FileParts,
    FileUpload,
    FindFiles,
    FoundFile,
    MakeFolder,
    PartRange,
    SendFiles,
    SignedPart,
    StagingProblem,
)
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.files.buckets import Bucket
from clusterra_gateway.files.paths import FilePath, KeySpace, PathRefused, file_path
from clusterra_gateway.files.presigned import Bounds, Content, signed_get, signed_put
from clusterra_gateway.files.uploads import PART_BYTES
from clusterra_gateway.http.requests.errors import TooLarge
from clusterra_gateway.staging.large_files import send_in_parts
from clusterra_gateway.staging.staging import CopiedFile
from clusterra_gateway.staging.turn import FilePaused, Paused, Turn
from clusterra_gateway.submission.staged_files import Input


async def copy_inputs(turn: Turn, bucket: Bucket, url_seconds: int) -> bool:
    """Copy what is missing, one file after another. Returns False where a file cannot be copied.

    Raises Paused, TurnOver, Lost, RequestError, StoreError.
    """
    try:
        await turn.staged(MakeFolder(folder=turn.staging.folder), "")
    except RpcFailed as failed:
        failing = turn.staging.staged_in.failing(f"the working directory: {failed.error.detail}")
        await turn.went_on(staged_in=failing)
        return False
    while turn.staging.next_input < len(turn.staging.inputs):
        index = turn.staging.next_input
        wanted = turn.staging.inputs[index]
        problem = await _fetched(turn, bucket, wanted, index, url_seconds)
        if problem is not None:
            failing = turn.staging.staged_in.failing(f"{wanted.source}: {problem}")
            await turn.went_on(staged_in=failing)
            return False
        await turn.step_done(next_input=index + 1, staged_in=turn.staging.staged_in.plus(1, wanted.size))
    return True


async def _fetched(turn: Turn, bucket: Bucket, wanted: Input, index: int, url_seconds: int) -> str | None:
    """Copy a file. Returns why it cannot be copied, or None. Raises FilePaused, Paused, Lost, RequestError."""
    signed = await signed_get(bucket, wanted.key, wanted.destination.rpartition("/")[2], url_seconds)
    download = FileDownload(path=wanted.destination, url=signed.url, size=wanted.size, etag=wanted.etag)
    work = FetchFiles(folder=turn.staging.folder, files=(download,))
    try:
        told = await turn.staged(work, str(index))
    except RpcFailed as failed:
        return failed.error.detail
    if not told.problems:
        return None
    problem = told.problems[0]
    if problem.outage:
        raise Paused(f"{wanted.source}: {problem.detail}")
    if problem.transient and not turn.staging.last_file_attempt:
        raise FilePaused(f"{wanted.source}: {problem.detail}")
    return problem.detail


MAX_OUTPUTS = 10_000
"""The most files that are staged out for a job."""
MAX_OUTPUT_BYTES = 5 * 1024**4
"""The most bytes that are staged out for a job."""
BATCH_FILES = 25
BATCH_BYTES = 128 * 1024 * 1024
"""The most that one request to the edge copies, unless it is one large file. After a break it may be copied twice."""


@dataclass(frozen=True)
class _Target:
    file: FoundFile
    path: FilePath
    key: str


class OutputCopies:
    """Copies outputs to one bucket."""

    def __init__(self, turn: Turn, bucket: Bucket, bounds: Bounds) -> None:
        self._turn = turn
        self._bucket = bucket
        self._bounds = bounds
        self._keys = KeySpace(turn.ref, turn.staging.member)

    async def run(self) -> None:
        """Copy all that is left. Raises Paused, TurnOver, Lost, RequestError, StoreError."""
        more = True
        while more:
            more = await self._page()

    async def _page(self) -> bool:
        """Copies the next page of files. Returns whether more are left."""
        staging = self._turn.staging
        patterns = tuple(each.source for each in staging.outputs)
        work = FindFiles(folder=staging.folder, patterns=patterns, after=staging.cursor, limit=MAX_FOUND)
        try:
            told = await self._turn.staged(work, staging.cursor)
        except RpcFailed as failed:
            await self._failed(f"the working directory: {failed.error.detail}")
            return False
        if told.after is not None and not (told.found or told.problems):
            # It would be asked for the same page again, without end.
            raise Paused("the edge says that there are more files, and tells none")
        left: list[FoundFile | StagingProblem] = sorted(
            [*told.found, *told.problems], key=lambda each: each.path.encode()
        )
        while left:
            batch = _batch(left)
            done = staging.staged_out
            size = done.bytes + sum(each.size for each in batch if isinstance(each, FoundFile))
            if done.files + done.failed_files >= MAX_OUTPUTS or size > MAX_OUTPUT_BYTES:
                bounds = f"{MAX_OUTPUTS} files or {MAX_OUTPUT_BYTES // 1024**4} TiB"
                await self._failed(f"there are more than {bounds}; the others were not copied")
                return False
            del left[: len(batch)]
            await self._copy(batch)
            staging = self._turn.staging
        return told.after is not None

    async def _copy(self, batch: Sequence[FoundFile | StagingProblem]) -> None:
        """Copy some files and note it. Of a batch that may succeed later, nothing is noted."""
        problems = [each for each in batch if isinstance(each, StagingProblem)]
        targets: list[_Target] = []
        for file in batch:
            if isinstance(file, StagingProblem):
                continue
            try:
                self._bounds.within(file.size)
                path = self._path(file)
                targets.append(_Target(file, path, self._keys.key(path)))
            except (PathRefused, TooLarge) as refused:
                detail = f"it has no path in the bucket: {refused}"
                problems.append(StagingProblem(path=file.path, detail=detail[:300]))
        if len(targets) == 1 and targets[0].file.size > PART_BYTES:
            problem = await send_in_parts(self._turn, self._bucket, targets[0].key, targets[0].file, self._seconds)
            problems += [] if problem is None else [problem]
        elif targets:
            problems += await self._send(targets)
        for problem in problems:
            if problem.outage:
                raise Paused(f"{problem.path}: {problem.detail}")
            if problem.transient and not self._turn.staging.last_file_attempt:
                raise FilePaused(f"{problem.path}: {problem.detail}")
        bad = {problem.path for problem in problems}
        copied = [
            CopiedFile(path=each.path.shown, size=each.file.size) for each in targets if each.file.path not in bad
        ]
        done = self._turn.staging.staged_out.plus(len(copied), sum(file.size for file in copied)).with_names(copied)
        done = done.failing(*(f"{problem.path}: {problem.detail}" for problem in problems))
        await self._turn.step_done(staged_out=done, cursor=batch[-1].path, upload=None)

    async def _send(self, targets: Sequence[_Target]) -> list[StagingProblem]:
        """Copy small files, each in one request. Returns those that failed."""
        folder, about = self._turn.staging.folder, targets[0].file.path
        whole = {target.file.path: target for target in targets}
        parts = tuple(_whole(target.file) for target in targets)
        try:
            told = await self._turn.staged(DigestFiles(folder=folder, files=parts), about)
            uploads: list[FileUpload] = []
            for sums in told.sums:
                target = whole[sums.path]
                content = Content(target.file.size, sums.sha256[0])
                signed = await signed_put(self._bucket, target.key, content, self._seconds)
                part = SignedPart(offset=0, length=target.file.size, url=signed.url, headers=signed.headers)
                uploads.append(FileUpload(**_as_found(target.file), parts=(part,)))
            if not uploads:
                return list(told.problems)
            sent = await self._turn.staged(SendFiles(folder=folder, files=tuple(uploads)), about)
        except RpcFailed as failed:
            return [StagingProblem(path=path, detail=failed.error.detail[:300]) for path in whole]
        return [*told.problems, *sent.problems]

    @property
    def _seconds(self) -> int:
        return self._bounds.lifetime(None)

    def _path(self, file: FoundFile) -> FilePath:
        outputs = self._turn.staging.outputs
        if file.pattern >= len(outputs):
            raise PathRefused("the edge names a pattern that there is not")
        return file_path(f"{outputs[file.pattern].destination}/{file.below}")

    async def _failed(self, reason: str) -> None:
        await self._turn.went_on(staged_out=self._turn.staging.staged_out.failing(reason))


def _batch(left: Sequence[FoundFile | StagingProblem]) -> list[FoundFile | StagingProblem]:
    """The next files to copy together: several small ones, or one large one alone."""
    batch: list[FoundFile | StagingProblem] = []
    size = 0
    for each in left[:BATCH_FILES]:
        own = each.size if isinstance(each, FoundFile) else 0
        if batch and (own > PART_BYTES or size + own > BATCH_BYTES):
            break
        batch.append(each)
        size += own
        if own > PART_BYTES:
            break
    return batch


def _whole(file: FoundFile) -> FileParts:
    return FileParts(**_as_found(file), parts=(PartRange(offset=0, length=file.size),))


def _as_found(file: FoundFile) -> dict[str, Any]:
    return file.model_dump(include={"path", "size", "modified_ns"})
