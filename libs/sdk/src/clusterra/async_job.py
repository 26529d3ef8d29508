"""A handle of one job for programs with asyncio: `clusterra.job` with `await`."""

import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from clusterra.errors import NotFound
from clusterra.models import Event, Explanation, JobRecord, MadeLink, SharedLink, Timeline
from clusterra.operations import events, jobs, links, outputs, waiting
from clusterra.operations.api import Api
from clusterra.operations.outputs import MAX_TAIL_LINES, OutputStream, OutputText, Piece
from clusterra.result import Result

if TYPE_CHECKING:
    from clusterra.http.async_transport import AsyncTransport


class AsyncJob:
    """A job of one cluster. To make it asks nothing; each method does.

    Every method raises the errors of `clusterra.errors`.
    """

    def __init__(self, transport: "AsyncTransport", api: Api, job_id: str, cluster: str | None = None) -> None:
        """Raises ValueError for what is no id of a job, and ConfigError where no cluster is named."""
        self._transport = transport
        self._api = api
        self._path = jobs.path_of(api, job_id, cluster)
        self._events_path = api.on("events", cluster)
        self._record: JobRecord | None = None
        self.id = job_id
        self.warnings: tuple[str, ...] = ()
        """What the gateway warned of when the job was submitted."""

    def __repr__(self) -> str:
        return f"<AsyncJob {self.id}>"

    @property
    def record(self) -> JobRecord | None:
        """The job as it was when it was last read; None if it never was."""
        return self._record

    async def refresh(self) -> JobRecord:
        """Read the job now."""
        self._record = await self._transport.run(jobs.record(self._api, self._path))
        return self._record

    async def wait(self, timeout: float | None = None) -> JobRecord:
        """Wait until the job has ended, and return its record. `timeout` is in seconds.

        It follows the events of the cluster. A gateway that does not answer is waited for. Of a client's waits at the
        same time, eight follow events, and further ones read their jobs from time to time: `as_completed` of the client
        waits for many jobs by one stream. Raises WaitTimeout.
        """
        with self._transport.waits as by_events:
            self._record = await self._transport.run(waiting.wait(self.awaited, timeout, by_events=by_events))
        return self._record

    @property
    def awaited(self) -> waiting.Awaited:
        """Where the job and the events of its cluster are."""
        return waiting.Awaited(self._api, self.id, self._path, f"{self._events_path}/stream")

    def ended(self, record: JobRecord) -> None:
        """Keep a record that was read elsewhere."""
        self._record = record

    async def follow(self, tail: int | None = None, *, stream: OutputStream = "stdout") -> AsyncGenerator[str]:
        """The output as it is written, from its start or its last `tail` lines on, until the job has ended.

        Nothing is left out or repeated when a connection breaks. When the job is requeued, its output starts again:
        `pieces` says that, too. It is text of the job, and no markup.
        """
        async with aclosing(self.pieces(tail, stream=stream)) as pieces:
            async for piece in pieces:
                if isinstance(piece, OutputText):
                    yield piece.text

    def pieces(self, tail: int | None = None, *, stream: OutputStream = "stdout") -> AsyncGenerator[Piece]:
        """The same as `follow`: each piece is a `OutputText` with its offset, a `Restarted`, or at last the `Ended`."""
        return self._transport.iterate(outputs.followed(self._api, self._path, stream=stream, tail=tail))

    async def output(self, tail: int | None = None, *, stream: OutputStream = "stdout") -> str:
        """What the job has written so far, or its last `tail` lines. It is text of the job, and no markup.

        Raises AnswerTooLong for an output of more than 64 MiB, which `output_bytes` reads.
        """
        return await self._transport.run(outputs.whole(self._api, self._path, stream=stream, tail=tail))

    def output_bytes(self, tail: int | None = None, *, stream: OutputStream = "stdout") -> AsyncGenerator[bytes]:
        """The same as `output`, byte for byte and piece by piece, of any length."""
        return self._transport.iterate(outputs.streamed(self._api, self._path, stream=stream, tail=tail))

    async def result(self, timeout: float | None = None) -> Result:
        """Wait until the job has ended, and return its exit code and the end of its output. Raises WaitTimeout."""
        ended = await self.wait(timeout)
        try:
            output = await self.output(MAX_TAIL_LINES)
        except NotFound:
            output = ""  # it never ran, or wrote to another place
        return Result(self.id, ended.state, ended.exit_code, ended.signal, output)

    async def why(self) -> Explanation:
        """Why the job waits, where it runs, or how it ended."""
        return await self._transport.run(jobs.explained(self._api, self._path))

    async def timeline(self) -> Timeline:
        """The stages of the job from its submit to its end, with the decisions that bought workers for it."""
        return await self._transport.run(jobs.timeline(self._api, self._path))

    async def script(self) -> str:
        """The script that the job was submitted with, with its `#SBATCH` lines. It is text of the job, and no markup.

        Raises NotFound until accounting has the job, some seconds after its submit, and where a cluster keeps none.
        """
        return await self._transport.run(jobs.script(self._api, self._path))

    async def share(self, name: str = "", *, shows: Sequence[str] = ("why",), days: float = 7) -> MadeLink:
        """Make a link that shows the job to whoever has it. Its `token` and `path` are shown only in this answer.

        `shows`: some of `output`, `cost`, `why` and `script`. Only the owner of the job may.
        """
        return await self._transport.run(links.make(self._api, self._path, name, shows, days))

    async def links(self) -> list[SharedLink]:
        """The caller's valid links to the job; for an admin everybody's."""
        return await self._transport.run(links.of_job(self._api, self._path))

    async def revoke_link(self, link_id: str) -> None:
        """Revoke a link to the job. It shows nothing from then on."""
        await self._transport.run(links.revoke(self._api, self._path, link_id))

    async def cancel(self) -> None:
        """Cancel the job, or do nothing if it has ended."""
        await self._transport.run(jobs.cancel(self._api, self._path))

    async def hold(self) -> None:
        """Keep the job from starting until it is released."""
        await self._transport.run(jobs.act(self._api, self._path, "hold"))

    async def release(self) -> None:
        """Let the held job start."""
        await self._transport.run(jobs.act(self._api, self._path, "release"))

    async def requeue(self, hold: bool = False) -> None:
        """End the job if it runs, and queue it again; with `hold` until it is released."""
        await self._transport.run(jobs.act(self._api, self._path, "requeue", {"hold": hold}))

    async def signal(self, name: str, *, batch_only: bool = False) -> None:
        """Send a signal such as `USR1` to the processes of the job; with `batch_only` to its script alone."""
        await self._transport.run(jobs.act(self._api, self._path, "signal", {"signal": name, "batch_only": batch_only}))

    async def update(self, **fields: Any) -> None:
        """Change fields of the job, such as `time_limit=30` (minutes)."""
        await self._transport.run(jobs.update(self._api, self._path, fields, uuid.uuid4().hex))

    def events(self) -> AsyncGenerator[Event]:
        """What has happened to the job, from the first event to the newest."""
        return self._transport.iterate(
            events.history(self._api, self._events_path, events.EventFilter(subject=self.id))
        )
