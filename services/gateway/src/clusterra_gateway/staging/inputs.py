"""Makes the working directory of a job, and copies its inputs there."""

from clusterra_contracts.rpc.edge_staging import FetchFiles, FileDownload, MakeFolder
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.files.buckets import Bucket
from clusterra_gateway.files.presigned import signed_get
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
