"""A handle of one job."""

import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from clusterra.errors import ClusterraError, NotFound
from clusterra.models import Event, Explanation, JobRecord, MadeLink, SharedLink, Timeline
from clusterra.notebook import SHOWN_LINES, job_html, problem_html
from clusterra.operations import events, jobs, links, outputs, waiting
from clusterra.operations.api import Api
from clusterra.operations.outputs import MAX_TAIL_LINES, OutputStream, OutputText, Piece
from clusterra.result import Result

if TYPE_CHECKING:
    from clusterra.http.sync_transport import SyncTransport


class Job:
    """A job of one cluster. To make it asks nothing; each method does.

    Every method raises the errors of `clusterra.errors`.
    """

    def __init__(self, transport: "SyncTransport", api: Api, job_id: str, cluster: str | None = None) -> None:
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
        return f"<Job {self.id}>"

    def _repr_html_(self) -> str:
        """The job as it is now, with the end of its output, for notebooks."""
        try:
            return job_html(self.refresh(), self._last_lines(SHOWN_LINES))
        except ClusterraError as error:
            return problem_html(self.id, str(error))

    @property
    def record(self) -> JobRecord:
        """The job as it was when it was last read; it is read now if it never was."""
        return self._record or self.refresh()

    def refresh(self) -> JobRecord:
        """Read the job now."""
        self._record = self._transport.run(jobs.record(self._api, self._path))
        return self._record

    def wait(self, timeout: float | None = None) -> JobRecord:
        """Wait until the job has ended, and return its record. `timeout` is in seconds.

        It follows the events of the cluster. A gateway that does not answer is waited for. Of a client's waits at the
        same time, eight follow events, and further ones read their jobs from time to time: `as_completed` of the client
        waits for many jobs by one stream. Raises WaitTimeout.
        """
        with self._transport.waits as by_events:
            self._record = self._transport.run(waiting.wait(self.awaited, timeout, by_events=by_events))
        return self._record

    @property
    def awaited(self) -> waiting.Awaited:
        """Where the job and the events of its cluster are."""
        return waiting.Awaited(self._api, self.id, self._path, f"{self._events_path}/stream")

    def ended(self, record: JobRecord) -> None:
        """Keep a record that was read elsewhere."""
        self._record = record

    def follow(self, tail: int | None = None, *, stream: OutputStream = "stdout") -> Iterator[str]:
        """The output as it is written, from its start or its last `tail` lines on, until the job has ended.

        Nothing is left out or repeated when a connection breaks. When the job is requeued, its output starts again:
        `pieces` says that, too. It is text of the job, and no markup.
        """
        for piece in self.pieces(tail, stream=stream):
            if isinstance(piece, OutputText):
                yield piece.text

    def pieces(self, tail: int | None = None, *, stream: OutputStream = "stdout") -> Iterator[Piece]:
        """The same as `follow`: each piece is a `OutputText` with its offset, a `Restarted`, or at last the `Ended`."""
        return self._transport.iterate(outputs.followed(self._api, self._path, stream=stream, tail=tail))

    def output(self, tail: int | None = None, *, stream: OutputStream = "stdout") -> str:
        """What the job has written so far, or its last `tail` lines. It is text of the job, and no markup.

        Raises AnswerTooLong for an output of more than 64 MiB, which `output_bytes` reads.
        """
        return self._transport.run(outputs.whole(self._api, self._path, stream=stream, tail=tail))

    def output_bytes(self, tail: int | None = None, *, stream: OutputStream = "stdout") -> Iterator[bytes]:
        """The same as `output`, byte for byte and piece by piece, of any length."""
        return self._transport.iterate(outputs.streamed(self._api, self._path, stream=stream, tail=tail))

    def result(self, timeout: float | None = None) -> Result:
        """Wait until the job has ended, and return its exit code and the end of its output. Raises WaitTimeout."""
        ended = self.wait(timeout)
        output = self._last_lines(MAX_TAIL_LINES)
        return Result(self.id, ended.state, ended.exit_code, ended.signal, output)

    def _last_lines(self, lines: int) -> str:
        """The end of the output; empty for a job that never ran, or wrote to another place."""
        try:
            return self.output(lines)
        except NotFound:
            return ""

    def why(self) -> Explanation:
        """Why the job waits, where it runs, or how it ended."""
        return self._transport.run(jobs.explained(self._api, self._path))

    def timeline(self) -> Timeline:
        """The stages of the job from its submit to its end, with the decisions that bought workers for it."""
        return self._transport.run(jobs.timeline(self._api, self._path))

    def script(self) -> str:
        """The script that the job was submitted with, with its `#SBATCH` lines. It is text of the job, and no markup.

        Raises NotFound until accounting has the job, some seconds after its submit, and where a cluster keeps none.
        """
        return self._transport.run(jobs.script(self._api, self._path))

    def share(self, name: str = "", *, shows: Sequence[str] = ("why",), days: float = 7) -> MadeLink:
        """Make a link that shows the job to whoever has it. Its `token` and `path` are shown only in this answer.

        `shows`: some of `output`, `cost`, `why` and `script`. Only the owner of the job may.
        """
        return self._transport.run(links.make(self._api, self._path, name, shows, days))

    def links(self) -> list[SharedLink]:
        """The caller's valid links to the job; for an admin everybody's."""
        return self._transport.run(links.of_job(self._api, self._path))

    def revoke_link(self, link_id: str) -> None:
        """Revoke a link to the job. It shows nothing from then on."""
        self._transport.run(links.revoke(self._api, self._path, link_id))

    def cancel(self) -> None:
        """Cancel the job, or do nothing if it has ended."""
        self._transport.run(jobs.cancel(self._api, self._path))

    def hold(self) -> None:
        """Keep the job from starting until it is released."""
        self._transport.run(jobs.act(self._api, self._path, "hold"))

    def release(self) -> None:
        """Let the held job start."""
        self._transport.run(jobs.act(self._api, self._path, "release"))

    def requeue(self, hold: bool = False) -> None:
        """End the job if it runs, and queue it again; with `hold` until it is released."""
        self._transport.run(jobs.act(self._api, self._path, "requeue", {"hold": hold}))

    def signal(self, name: str, *, batch_only: bool = False) -> None:
        """Send a signal such as `USR1` to the processes of the job; with `batch_only` to its script alone."""
        self._transport.run(jobs.act(self._api, self._path, "signal", {"signal": name, "batch_only": batch_only}))

    def update(self, **fields: Any) -> None:
        """Change fields of the job, such as `time_limit=30` (minutes)."""
        self._transport.run(jobs.update(self._api, self._path, fields, uuid.uuid4().hex))

    def events(self) -> Iterator[Event]:
        """What has happened to the job, from the first event to the newest."""
        return self._transport.iterate(
            events.history(self._api, self._events_path, events.EventFilter(subject=self.id))
        )
