"""`edge.<tenant>.<cluster>.stream-*`: byte streams between the central side and a session on a customer's worker.

The central side begins every exchange, so that a stream needs no right on NATS beyond that of an answered request: it
asks for each chunk of the edge, and each chunk of its own is answered. A request that waits is a credit for one chunk.
"""

from typing import Annotated, ClassVar

from pydantic import Base64Bytes, Field, model_validator

from clusterra_contracts.identity import JobId, PosixId, Wire, WorkerName

CHUNK_BYTES = 32 * 1024
"""The most bytes of a chunk."""
MAX_WAIT_SECONDS = 20.0
"""How long a request waits at most at the edge: for bytes, or until the session has taken some."""

StreamId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Number = Annotated[int, Field(ge=0, lt=10**15)]
CookieName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Chunk = Annotated[Base64Bytes, Field(max_length=CHUNK_BYTES)]
"""The bytes of a chunk. pydantic counts them after it has decoded them."""


class SessionJob(Wire):
    """A session: a job, its owner, and where it runs. On which port its server listens, the job itself tells.

    So nobody but the owner of the job chooses a port, and a request cannot name one.
    """

    job_id: JobId
    uid: PosixId
    """The owner: a file or a server of another user counts for nothing."""
    worker: WorkerName


class ReadSession(Wire):
    """Read how a session can be reached."""

    schema_name: ClassVar[str] = "edge.session.v1"

    session: SessionJob


class SessionReady(Wire):
    """A session whose server can be reached."""

    schema_name: ClassVar[str] = "edge.session-ready.v1"

    strip_prefix: bool = False
    """Whether the server does not know the prefix of the path that browsers use."""
    token_cookie: CookieName | None = None
    """A cookie in which the server also wants its token, because it reads no `Authorization`."""
    streams: int = 0
    """How many streams to it are open."""
    idle_seconds: Annotated[float, Field(ge=0)] | None = None
    """How long no byte has gone over its streams, as far back as this agent has run."""


class OpenStream(Wire):
    """Open a stream to the server of a session."""

    schema_name: ClassVar[str] = "edge.stream-open.v1"

    session: SessionJob
    probe: bool = False
    """Whether the stream only looks at the session, and does not count as its use."""


class StreamOpened(Wire):
    """The edge has connected to the session."""

    schema_name: ClassVar[str] = "edge.stream-opened.v1"

    stream_id: StreamId


class ReadStream(Wire):
    """The credit for one chunk: answered as soon as there are bytes, and without any after `wait_seconds`."""

    schema_name: ClassVar[str] = "edge.stream-read.v1"

    stream_id: StreamId
    wait_seconds: Annotated[float, Field(ge=0, le=MAX_WAIT_SECONDS)] = MAX_WAIT_SECONDS


class StreamChunk(Wire):
    """The next chunk of the session's bytes: `number` counts from 1. Without bytes it is that of the chunk before.

    `end`: the session sends nothing more.
    """

    schema_name: ClassVar[str] = "edge.stream-chunk.v1"

    number: Number
    data: Chunk = b""
    end: bool = False


class WriteStream(Wire):
    """The next chunk for the session: `number` counts from 1. With 0 it has no bytes, and only waits for room.

    `end`: nothing more follows.
    """

    schema_name: ClassVar[str] = "edge.stream-write.v1"

    stream_id: StreamId
    number: Number
    data: Chunk = b""
    end: bool = False

    @model_validator(mode="after")
    def _no_bytes_without_a_number(self) -> "WriteStream":
        if self.number == 0 and (self.data or self.end):
            raise ValueError("a chunk with bytes or an end needs a number")
        return self


class StreamWritten(Wire):
    """The chunk was taken. `room`: whether the session has taken it, too, so that the next one may be sent."""

    schema_name: ClassVar[str] = "edge.stream-written.v1"

    room: bool = True


class CancelStream(Wire):
    """End a stream in both directions at once."""

    schema_name: ClassVar[str] = "edge.stream-cancel.v1"

    stream_id: StreamId
