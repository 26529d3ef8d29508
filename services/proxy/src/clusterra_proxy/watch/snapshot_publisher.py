"""Publishes queue snapshots of a cluster: at every change, and periodically without one.

A large queue is published every two seconds at most. A queue that cannot be told makes the cluster degraded.
"""

import asyncio
import time

import structlog
from clusterra_contracts.bus.envelope import InvalidMessage
from clusterra_contracts.bus.large_queue import QueueTooLarge
from clusterra_contracts.identity import now
from clusterra_contracts.queue import QueueSnapshot
from clusterra_runtime.backoff import Backoff
from clusterra_runtime.clock import generation
from clusterra_runtime.nats.bus import BusUnavailable, Client, MessageRejected
from clusterra_runtime.nats.queue import last_head
from prometheus_client import Counter

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.watch.intervals import Intervals
from clusterra_proxy.watch.job_spans import pending_traces
from clusterra_proxy.watch.snapshot import same_queue, urgent
from clusterra_proxy.watch.snapshot_lists import SnapshotLists
from clusterra_proxy.watch.snapshot_sender import LARGE_RECORDS, QUICK_RECORDS, record_count, send_snapshot

log = structlog.get_logger(__name__)

URGENT_SECONDS = 0.4
"""Interval of unchanged snapshots while jobs are pending or nodes drain. Below the poll interval, so that every poll
is published: the scaler's decisions then depend on fresh snapshots."""
LARGE_SECONDS = 2.0
"""Minimum interval between the snapshots of a large queue."""
RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 10.0

PUBLISHED = Counter("clusterra_snapshots_published_total", "Queue snapshots, by reason of publication", ("why",))


class SnapshotPublisher:
    """Publishes one cluster's snapshots. Generations increase across restarts; several wake-ups make one snapshot."""

    def __init__(self, cluster: Cluster, client: Client, intervals: Intervals) -> None:
        self._cluster = cluster
        self._client = client
        self._intervals = intervals
        self._lists = SnapshotLists()
        self._wake = asyncio.Event()
        self._last: QueueSnapshot | None = None
        self._last_at = 0.0
        self._inputs: tuple[object, ...] = ()
        """The inputs of the last snapshot that was published, or was found to be unchanged."""
        self.urgent = True
        """Whether the scaler's decisions depend on the next snapshot; True before the first one."""

    def wake(self) -> None:
        """Check whether there is something to publish."""
        self._wake.set()

    def on_poll(self) -> None:
        """Wake after a poll, unless the queue is quiet, the poll has changed nothing, and no snapshot is due."""
        due = time.monotonic() - self._last_at >= self._intervals.quiet_seconds
        if self.urgent or due or self._inputs != _inputs_of(self._cluster):
            self.wake()

    async def run(self) -> None:
        """Publish snapshots, forever."""
        latest = await self._latest_generation()
        backoff = Backoff(RETRY_SECONDS, LONGEST_RETRY_SECONDS)
        while True:
            await self._wake.wait()
            await self._pace()
            self._wake.clear()
            inputs = _inputs_of(self._cluster)
            snapshot = await self._take_snapshot(generation(latest))
            changed = not same_queue(self._last, snapshot)
            pause = URGENT_SECONDS if urgent(snapshot) else self._intervals.quiet_seconds
            if not changed and time.monotonic() - self._last_at < pause:
                self._inputs = inputs
                continue
            if await self._publish(snapshot):
                latest, self._last, self._last_at = snapshot.generation, snapshot, time.monotonic()
                self._inputs, self.urgent = inputs, urgent(snapshot)
                PUBLISHED.labels("change" if changed else "time").inc()
                backoff.succeeded()
            else:
                # Retry with a new snapshot: this one is outdated by then.
                await backoff.pause()
                self._wake.set()

    async def _pace(self) -> None:
        if self._last is not None and record_count(self._last) > LARGE_RECORDS:
            await asyncio.sleep(max(self._last_at + LARGE_SECONDS - time.monotonic(), 0.0))

    async def _take_snapshot(self, number: int) -> QueueSnapshot:
        cluster = self._cluster
        read = [moment for moment in (cluster.jobs_observed_at, cluster.nodes_observed_at) if moment is not None]
        published_at = now()
        taken_at = min(read, default=published_at)
        jobs = tuple(cluster.jobs) if cluster.jobs_observed_at is not None else None
        nodes = tuple(cluster.nodes.values()) if cluster.nodes_observed_at is not None else None
        unreadable_jobs = cluster.unreadable_jobs if jobs is not None else 0
        unreadable_nodes = cluster.unreadable_nodes if nodes is not None else 0

        def take() -> QueueSnapshot:
            pending = running = None
            if jobs is not None:
                pending, running = self._lists.jobs(jobs, cluster.jobs.waiting_tasks, cluster.owner_name, published_at)
            return QueueSnapshot(
                generation=number,
                taken_at=taken_at,
                published_at=published_at,
                valid_seconds=self._intervals.valid_seconds((published_at - taken_at).total_seconds()),
                pending=pending,
                running=running,
                nodes=self._lists.nodes(nodes) if nodes is not None else None,
                unreadable_jobs=unreadable_jobs,
                unreadable_nodes=unreadable_nodes,
                traces=pending_traces(jobs) if jobs is not None else {},
            )

        # Each task of a waiting array counts: ten arrays of 100,000 tasks are ten records and a second of work.
        rows = cluster.jobs.state_rows if jobs is not None else 0
        quick = rows + len(nodes or ()) <= QUICK_RECORDS
        return take() if quick else await asyncio.to_thread(take)

    async def _publish(self, snapshot: QueueSnapshot) -> bool:
        try:
            await send_snapshot(self._client, self._cluster.ref, snapshot)
        except (QueueTooLarge, MessageRejected) as error:
            log.warning("snapshot_refused", generation=snapshot.generation, reason=str(error))
            self._cluster.condition.degrade("queue_too_large", f"the queue cannot be told to the scaler: {error}")
            return False
        except BusUnavailable as error:
            log.warning("snapshot_not_published", generation=snapshot.generation, reason=str(error))
            return False
        self._cluster.condition.recover("queue_too_large")
        return True

    async def _latest_generation(self) -> int:
        backoff = Backoff(RETRY_SECONDS, LONGEST_RETRY_SECONDS)
        while True:
            try:
                stored = await last_head(self._client, self._cluster.ref)
            except BusUnavailable as error:
                log.warning("last_snapshot_not_read", reason=str(error))
                await backoff.pause()
            except InvalidMessage as error:
                log.warning("last_snapshot_unreadable", reason=str(error))
                return 0
            else:
                return 0 if stored is None else stored.generation


def _inputs_of(cluster: Cluster) -> tuple[object, ...]:
    """Return the versions of all that a quiet snapshot is made from, except of nodes that were read for a request.

    After each such read, the watcher calls `SnapshotPublisher.wake`.
    """
    return (
        cluster.jobs.version,
        cluster.nodes_version,
        len(cluster.mint.names),
        cluster.unidentified_jobs,
        cluster.unidentified_nodes,
        cluster.jobs_observed_at is None,
        cluster.nodes_observed_at is None,
    )
