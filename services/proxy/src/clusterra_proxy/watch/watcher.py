"""Watches one cluster: keeps the observation current, publishes events and queue snapshots."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import structlog
from clusterra_runtime.backoff import Backoff
from clusterra_runtime.nats.bus import BusUnavailable, Client
from clusterra_runtime.nats.events import EventPublisher

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.cluster.job_table import JobTable
from clusterra_proxy.slurmrestd.errors import SlurmFailed
from clusterra_proxy.slurmrestd.records import JobRecord
from clusterra_proxy.watch.event_queue import EventQueue
from clusterra_proxy.watch.intervals import QUIET_POLLS_PER_NODE_POLL, Intervals
from clusterra_proxy.watch.job_poll import JobPoll
from clusterra_proxy.watch.node_poll import NodePoll
from clusterra_proxy.watch.replay import PublishedEvents, read_missed_jobs, read_published_events
from clusterra_proxy.watch.snapshot_publisher import SnapshotPublisher

log = structlog.get_logger(__name__)

RETRY_SECONDS = 2.0
LONGEST_RETRY_SECONDS = 30.0


class Watcher:
    """Polls a cluster every `intervals.poll_seconds`.

    A failed poll sets the lists of the next snapshot to None and has no other effect.
    """

    def __init__(self, cluster: Cluster, client: Client, intervals: Intervals) -> None:
        self._cluster = cluster
        self._client = client
        self._intervals = intervals
        self._events = EventQueue(EventPublisher(client, "proxy"), cluster.ref)
        self._publisher = SnapshotPublisher(cluster, client, intervals)
        self._jobs = JobPoll(cluster, self._events)
        self._nodes = NodePoll(cluster, self._events)
        self._failing: dict[str, str] = {}
        self._polls = 0

    async def run(self) -> None:
        """Watch the cluster, forever."""
        self._cluster.jobs = JobTable(self._cluster.on_unreadable)
        self._cluster.listener = self
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._events.run())
                tasks.create_task(self._publisher.run())
                await self._poll()
                tasks.create_task(self._replay())
                tasks.create_task(self._resolve_lost_jobs())
                while True:
                    await self._intervals.pace.sleep(self._intervals.poll_seconds)
                    await self._poll()
        finally:
            self._cluster.listener = None
            self._cluster.jobs_observed_at = self._cluster.nodes_observed_at = None

    def on_jobs(self, records: tuple[JobRecord, ...]) -> None:
        """Queue the events that the job records prove, and publish a snapshot with them."""
        self._jobs.queue_events(records)
        self._publisher.wake()

    def on_nodes(self) -> None:
        """Queue the events that the nodes prove, and publish a snapshot with them."""
        self._nodes.queue_events()
        self._publisher.wake()

    async def _poll(self) -> None:
        if self._publisher.urgent or self._polls % QUIET_POLLS_PER_NODE_POLL == 0:
            await asyncio.gather(self._poll_jobs(), self._poll_nodes())
        else:
            await self._poll_jobs()
        self._jobs.spans.record_waiting()
        self._polls += 1
        self._tell_reachable()
        self._cluster.tell_readable()
        self._publisher.on_poll()

    def _tell_reachable(self) -> None:
        if failing := sorted(self._failing.keys() & {"jobs", "nodes"}):
            self._cluster.condition.degrade("unreachable", self._failing[failing[0]])
        else:
            self._cluster.condition.recover("unreachable")

    async def _poll_jobs(self) -> None:
        if not await self._succeeds("jobs", self._jobs.poll):
            self._cluster.jobs_observed_at = None
            # slurmrestd may have been replaced by one with another API version.
            self._cluster.slurmctld.forget_version()

    async def _poll_nodes(self) -> None:
        if not await self._succeeds("nodes", self._nodes.poll):
            self._cluster.nodes_observed_at = None
            self._cluster.nodes_version += 1

    async def _succeeds(self, target: str, attempt: Callable[[], Awaitable[None]]) -> bool:
        """Return whether an attempt succeeds. Logs the first failure and the first success after it."""
        try:
            await attempt()
        except SlurmFailed as error:
            if target not in self._failing:
                log.warning("cluster_not_seen", what=target, reason=str(error))
            self._failing[target] = str(error)
            return False
        if target in self._failing:
            log.info("cluster_seen_again", what=target)
        self._failing.pop(target, None)
        return True

    async def _replay(self) -> None:
        """Find the events that no replica published, at the start and whenever the queue was full."""
        missed: PublishedEvents | None = await self._start_publishing()
        backoff = Backoff(RETRY_SECONDS, LONGEST_RETRY_SECONDS)
        while True:
            if missed is not None and await self._succeeds("accounting", partial(self._replay_missed_jobs, missed)):
                missed, backoff = None, Backoff(RETRY_SECONDS, LONGEST_RETRY_SECONDS)
            await (asyncio.sleep(RETRY_SECONDS) if missed is None else backoff.pause())
            if await self._events.caught_up():
                missed = await self._start_publishing()

    async def _start_publishing(self) -> PublishedEvents:
        published = await self._read_published_events()
        self._events.resume()
        self._jobs.start_publishing(published.jobs)
        self._nodes.start_publishing(published.nodes)
        return published

    async def _replay_missed_jobs(self, published: PublishedEvents) -> None:
        self._jobs.replay(await read_missed_jobs(self._cluster, published))

    async def _read_published_events(self) -> PublishedEvents:
        backoff = Backoff(RETRY_SECONDS, LONGEST_RETRY_SECONDS)
        while True:
            try:
                return await read_published_events(self._client, self._cluster.ref)
            except BusUnavailable as error:
                log.warning("told_events_not_read", reason=str(error))
                await backoff.pause()

    async def _resolve_lost_jobs(self) -> None:
        while True:
            await asyncio.sleep(RETRY_SECONDS)
            await self._succeeds("accounting", self._jobs.resolve_lost_jobs)
