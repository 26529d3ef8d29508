"""One of the outputs of a job: where it is in the shared folder, and where a read of it begins."""

from dataclasses import dataclass
from posixpath import normpath

from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.edge import LOG_CHUNK_BYTES, ReadLog
from clusterra_contracts.rpc.slurm import Job, Viewer
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.bus.requests import EdgeRequests, OutputStream
from clusterra_gateway.http.requests.errors import NotFound


def relative_path(job: Job, stream: OutputStream, shared_path: str) -> str | None:
    """The path of an output, relative to the shared folder; None where Slurm does not tell it (yet).

    A pending array has only a pattern, and so has an array as a whole. Slurm tells a relative pattern as it is written.
    Raises NotFound for an output outside of the shared folder, and for a stderr that the job writes to its stdout.
    """
    path = job.standard_output if stream == "stdout" else job.standard_error
    if not path or ("%" in path and (job.array_tasks or not path.startswith("/"))):
        return None
    if stream == "stderr" and path == job.standard_output:
        raise NotFound(f"job {job.job_id} writes its stderr to its stdout", hint="read the stdout")
    folder = shared_path.rstrip("/") + "/"
    # Slurm tells `./x`, `a/../x` and `//x` as the user wrote them. The agent, which opens the path, follows no link.
    normal = "/" + normpath(path).lstrip("/") if path.startswith("/") else path
    if not normal.startswith(folder):
        raise NotFound(
            f"job {job.job_id} writes its {stream} to {path}, outside of the cluster's shared folder",
            hint=f"let jobs write below {folder}, by --output",
        )
    return normal.removeprefix(folder)


@dataclass(frozen=True)
class Output:
    """One of a job's two outputs, and the person who reads it."""

    ref: ClusterRef
    viewer: Viewer
    job: Job
    stream: OutputStream
    shared_path: str
    """The cluster's shared folder, as its jobs see it."""

    def check_path(self, job: Job) -> None:
        """Raises NotFound for a path that cannot be read, so that the client gets a 404 and not an empty stream."""
        relative_path(job, self.stream, self.shared_path)

    def part(self, job: Job, offset: int, wait_seconds: float = 0.0, *, limit: int = LOG_CHUNK_BYTES) -> ReadLog:
        """The request of a part of it, by the newest record of the job. Raises NotFound."""
        return ReadLog(
            job_id=job.job_id,
            uid=job.uid,
            stream=self.stream,
            path=relative_path(job, self.stream, self.shared_path),
            offset=offset,
            limit=limit,
            wait_seconds=wait_seconds,
        )


MAX_TAIL_LINES = 10_000
TAIL_BYTES = 4 * LOG_CHUNK_BYTES
"""The last lines are looked for in this many bytes at the end. Lines have no bound, so a tail of them needs one."""
_MAX_CHARACTER_BYTES = 4


async def start_of_tail(edge: EdgeRequests, output: Output, lines: int) -> int:
    """The offset of the first of the last `lines` lines, at most TAIL_BYTES before the end.

    The text behind the last line end counts as a line. It is 0 before the job has written anything, and for an output
    that is restarted during the search. Raises NotFound, and RpcFailed where the edge does not answer.
    """
    try:
        size = (await edge.output(output.ref, output.part(output.job, 0, limit=1))).size
        floor = max(0, size - TAIL_BYTES)
        end, missing = size, lines
        while missing and end > floor:
            begin = max(floor, end - LOG_CHUNK_BYTES)
            chunk = await edge.output(output.ref, output.part(output.job, begin, limit=end - begin))
            if len(chunk.data) < end - begin:
                return 0
            position = len(chunk.data) - (end == size and chunk.data.endswith(b"\n"))
            while missing and (position := chunk.data.rfind(b"\n", 0, position)) >= 0:
                missing -= 1
                if not missing:
                    return begin + position + 1
            if begin == floor > 0:
                return floor + _cut_character(chunk.data)
            end = begin
    except RpcFailed as failed:
        if failed.error.kind != "not_found":
            raise
        return 0
    return end


def _cut_character(data: bytes) -> int:
    """The number of bytes at the start of `data` that end a UTF-8 character begun before."""
    for count, byte in enumerate(data[: _MAX_CHARACTER_BYTES - 1]):
        if byte & 0xC0 != 0x80:
            return count
    return 0
