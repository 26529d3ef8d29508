"""`edge.<tenant>.<cluster>.log`: reading the output of a job, in place on the customer's shared folder."""

from typing import Annotated, ClassVar, Literal

from pydantic import Base64Bytes, Field

from clusterra_contracts.identity import JobId, Wire

LOG_CHUNK_BYTES = 256 * 1024
"""The maximum size of one reply's data: in base64 it stays below NATS' payload limit of 1 MiB."""


class ReadLog(Wire):
    """Read from `offset` (bytes). At the end of the file, the answer waits up to `wait_seconds` for more output."""

    schema_name: ClassVar[str] = "edge.log.v2"

    job_id: JobId
    uid: int
    """The owner: a file of another user counts as not found."""
    stream: Literal["stdout", "stderr"] = "stdout"
    path: Annotated[str, Field(max_length=4096)] | None = None
    """The file, relative to the shared folder, as Slurm tells it; None: the file is searched by its usual names."""
    offset: Annotated[int, Field(ge=0)] = 0
    limit: Annotated[int, Field(ge=1, le=LOG_CHUNK_BYTES)] = LOG_CHUNK_BYTES
    wait_seconds: Annotated[float, Field(ge=0, le=30)] = 0.0


class LogChunk(Wire):
    """Bytes `offset` to `offset + len(data)` of a file that had `size` bytes when it was read."""

    schema_name: ClassVar[str] = "edge.log-chunk.v1"

    offset: int
    size: int
    data: Base64Bytes
