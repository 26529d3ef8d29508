"""The client for programs with asyncio: `clusterra.client` with `await`."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from clusterra.async_gateway import AsyncGateway
from clusterra.async_job import AsyncJob
from clusterra.client import NOTHING
from clusterra.http.streams import Connection
from clusterra.models import (
    Budget,
    Cluster,
    ClusterDetail,
    CostReport,
    Estimate,
    Event,
    JobCounts,
    JobRecord,
    Launchable,
    Launched,
    MadeToken,
    OwnLink,
    Profile,
    Quota,
    Schedule,
    Shape,
    Token,
    Worker,
)
from clusterra.nodes import Node
from clusterra.operations import clusters, events, jobs, links, money, people, schedules, templates, waiting
from clusterra.operations.events import EventFilter, Gap, StreamedEvent
from clusterra.operations.jobs import ALL_JOBS, Fields, JobFilter, Submission

if TYPE_CHECKING:
    from clusterra.files.async_files import AsyncFiles


class AsyncClient(AsyncGateway):
    """A gateway, as one person or service account uses it.

    Every method raises the errors of `clusterra.errors`. A client belongs to one event loop.
    """

    @property
    def files(self) -> "AsyncFiles":
        """The files of the cluster's bucket."""
        from clusterra.files.async_files import AsyncFiles

        return AsyncFiles(self._transport, self._api)

    async def me(self) -> Profile:
        """The caller's profile."""
        return await self._transport.run(people.me(self._api))

    async def clusters(self) -> list[Cluster]:
        """The clusters of the caller's tenant."""
        return await self._transport.run(clusters.clusters(self._api))

    async def cluster_detail(self, cluster: str | None = None) -> ClusterDetail:
        """A cluster with its shapes and a summary of its queue."""
        return await self._transport.run(clusters.cluster(self._api, cluster))

    async def shapes(self, cluster: str | None = None) -> list[Shape]:
        """The kinds of workers that a cluster may buy."""
        return await self._transport.run(clusters.shapes(self._api, cluster))

    async def nodes(self, cluster: str | None = None) -> list[Node]:
        """The nodes that Slurm knows now. Workers exist only while jobs need them."""
        return await self._transport.run(clusters.nodes(self._api, cluster))

    def workers(self, cluster: str | None = None) -> AsyncGenerator[Worker]:
        """The live workers by name, each with what it does and costs now."""
        return self._transport.iterate(clusters.workers(self._api, cluster))

    async def submit(
        self,
        script: str,
        job: Fields = NOTHING,
        *,
        cluster: str | None = None,
        key: str | None = None,
        stage_in: Sequence[Fields] = (),
        stage_out: Sequence[Fields] = (),
    ) -> AsyncJob:
        """Submit a job, and return its handle.

        `job` has fields in slurmrestd's shape, such as `{"name": "fit", "cpus_per_task": 4, "time_limit": 60}`; the
        limit is in minutes. They win over the script's `#SBATCH` lines. The submit makes one job, however often it must
        be sent. With a `key` of the caller's (8 to 64 letters, digits, `-` or `_`), that also holds across programs.
        """
        submission = Submission(script, job, stage_in, stage_out)
        submitted = await self._transport.run(jobs.submit(self._api, submission, cluster, key))
        made = self.job(submitted.job_id, cluster=cluster)
        made.warnings = tuple(submitted.warnings)
        return made

    async def estimate(self, script: str, job: Fields = NOTHING, *, cluster: str | None = None) -> Estimate:
        """What a job would cost, and when it would start. Nothing is submitted."""
        return await self._transport.run(jobs.estimate(self._api, Submission(script, job), cluster))

    def jobs(
        self,
        state: str | Sequence[str] = (),
        user: str | None = None,
        name: str | None = None,
        submitted_after: datetime | None = None,
        sort: str | None = None,
        limit: int | None = None,
        *,
        submitted_before: datetime | None = None,
        partition: str | None = None,
        account: str | None = None,
        qos: str | None = None,
        search: str | None = None,
        cluster: str | None = None,
    ) -> AsyncGenerator[JobRecord]:
        """The jobs of a filter, the newest first unless `sort` says otherwise. Pages are read as they are needed.

        `search` is a part of the name, or the id of a job or an array. Without `submitted_after`, those that Slurm
        still remembers: jobs leave it some minutes after their end.
        """
        wanted = JobFilter(state, user, name, partition, account, qos, submitted_after, submitted_before, sort, search)
        return self._transport.iterate(jobs.listed(self._api, wanted, cluster, limit))

    async def job_counts(self, wanted: JobFilter = ALL_JOBS, *, cluster: str | None = None) -> JobCounts:
        """How many jobs a filter has, by state, without reading them. Its states and its order do not count."""
        return await self._transport.run(jobs.counted(self._api, wanted, cluster))

    def job(self, job_id: str, *, cluster: str | None = None) -> AsyncJob:
        """A handle of a job, such as `42`, or of a task, such as `42_7`. It asks nothing yet.

        A handle of several tasks, such as `42_[1-3,5]`, is for changes alone: cancel, signal, requeue.
        """
        return AsyncJob(self._transport, self._api, str(job_id), cluster)

    async def as_completed(self, jobs: Sequence[AsyncJob], timeout: float | None = None) -> AsyncGenerator[AsyncJob]:
        """The jobs of one cluster as they end, each with its record. All share one stream of events.

        Raises WaitTimeout, and ValueError for jobs of several clusters.
        """
        by_id = {job.id: job for job in jobs}
        async with aclosing(self._transport.iterate(waiting.completed(waiting.of_one_cluster(jobs), timeout))) as ended:
            async for job_id, record in ended:
                by_id[job_id].ended(record)
                yield by_id[job_id]

    async def events(self, after: str | None = None, *, cluster: str | None = None) -> AsyncGenerator[Event]:
        """The events of a cluster as they happen, from now on or behind the position `after`. It has no end.

        A position is the header `Event-Position` of a list, such as that of jobs or sessions: `request` returns it. It
        goes on where it was when a connection breaks. `event_stream` also has positions and gaps.
        """
        async with aclosing(self.event_stream(after, cluster=cluster)) as stream:
            async for streamed in stream:
                if isinstance(streamed, StreamedEvent):
                    yield streamed.event

    def event_stream(
        self, after: str | None = None, *, cluster: str | None = None, connections: bool = False
    ) -> AsyncGenerator[StreamedEvent | Gap | Connection]:
        """The same as `events`, each with its position. A `Gap` stands for events that are left out.

        With `connections`, a `Connection` comes when the stream is open, and when it has broken.
        """
        return self._transport.iterate(events.streamed(self._api, cluster, after, connections=connections))

    def history(
        self,
        kind: str | Sequence[str] = (),
        *,
        subject: str | None = None,
        after: datetime | None = None,
        before: datetime | None = None,
        newest_first: bool = False,
        limit: int | None = None,
        cluster: str | None = None,
    ) -> AsyncGenerator[Event]:
        """The archived events of a filter, such as `kind="job.*"`, the oldest first unless asked otherwise."""
        wanted = EventFilter(kind, subject, after, before, newest_first)
        return self._transport.iterate(events.history(self._api, self._api.on("events", cluster), wanted, limit))

    async def costs(
        self,
        by: str | Sequence[str] = "job",
        *,
        first: date | None = None,
        end: date | None = None,
        cluster: str | None = None,
    ) -> CostReport:
        """What jobs and workers cost since `first` (UTC; else this month) until the day before `end`.

        `by`: some of `day`, `user`, `account`, `job`, `worker`, `shape`. It has at most 1,000 rows.
        """
        return await self._transport.run(money.costs(self._api, by, first, end, cluster))

    async def quotas(self) -> list[Quota]:
        """The quotas that the caller may see, with what is used of them."""
        return await self._transport.run(money.quotas(self._api))

    async def budgets(self) -> list[Budget]:
        """The budgets that the caller may see, with what is used of them."""
        return await self._transport.run(money.budgets(self._api))

    async def templates(self) -> list[Launchable]:
        """The templates, presets and workflows that can be launched."""
        return await self._transport.run(templates.launchables(self._api))

    async def launch(
        self,
        template: str,
        params: Mapping[str, Any] = NOTHING,
        *,
        inputs: Mapping[str, Any] = NOTHING,
        sbatch_override: Mapping[str, Any] = NOTHING,
        cluster: str | None = None,
        run_name: str | None = None,
        confirmed_usd_per_hour: float | None = None,
        key: str | None = None,
    ) -> Launched:
        """Launch a template with values for its parameters and inputs: one job, or the run of a workflow.

        `confirmed_usd_per_hour` is needed where a job costs more than the cluster lets pass without a confirmation.
        """
        values = {
            "params": dict(params),
            "inputs": dict(inputs),
            "sbatch_override": dict(sbatch_override),
            "cluster_id": cluster or self._api.cluster,
            "run_name": run_name,
            "confirmed_usd_per_hour": confirmed_usd_per_hour,
        }
        return await self._transport.run(templates.launch(self._api, template, values, key))

    def schedules(self) -> AsyncGenerator[Schedule]:
        """The caller's schedules of templates; an admin's are those of everybody."""
        return self._transport.iterate(schedules.schedules(self._api))

    async def change_schedule(self, schedule_id: str, **changes: Any) -> Schedule:
        """Change a schedule: its `name`, `cron`, `missed`, `params`, `inputs`, `sbatch_override`, what is confirmed.

        `paused=True` pauses it; `paused=False` resumes it from its next time on.
        """
        return await self._transport.run(schedules.change_schedule(self._api, schedule_id, changes))

    async def run_schedule(self, schedule_id: str, *, key: str | None = None) -> Schedule:
        """Submit the template of a schedule once, now. `last_job` or `last_run` of the answer is what was made."""
        return await self._transport.run(schedules.run_schedule(self._api, schedule_id, key))

    def links(self) -> AsyncGenerator[OwnLink]:
        """The caller's valid links to jobs of all clusters, without their secrets. `job(...).revoke_link` ends one."""
        return self._transport.iterate(links.own(self._api))

    async def tokens(self) -> list[Token]:
        """The caller's tokens that are valid now."""
        return await self._transport.run(people.tokens(self._api))

    async def make_token(self, name: str, scopes: Sequence[str] | None = None, days: float = 30) -> MadeToken:
        """Make a token. The gateway refuses this to tokens: it needs the session of a browser."""
        return await self._transport.run(people.make_token(self._api, name, scopes, days))

    async def revoke_token(self, token_id: str) -> None:
        """Revoke a token of the caller. It no longer works within a second."""
        await self._transport.run(people.revoke_token(self._api, token_id))
