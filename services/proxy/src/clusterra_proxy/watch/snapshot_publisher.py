"""Publishes queue snapshots of a cluster: at every change, and periodically without one."""

import asyncio
import time

import structlog
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import InvalidMessage
from clusterra_contracts.bus.topology import JOB
from clusterra_contracts.identity import now
from clusterra_contracts.queue import QueueSnapshot
from clusterra_runtime.clock import generation
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.bus import BusUnavailable, Client, MessageRejected
from prometheus_client import Counter

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.watch.intervals import Intervals
from clusterra_proxy.watch.job_spans import pending_traces
from clusterra_proxy.watch.snapshot import node_states, pending_jobs, running_jobs, same_queue, urgent

log = structlog.get_logger(__name__)

URGENT_SECONDS = 0.4
"""Interval of unchanged snapshots while jobs are pending or nodes drain. Below the poll interval, so that every poll
is published: the scaler's decisions then depend on fresh snapshots."""
RETRY_SECONDS = 1.0

PUBLISHED = Counter("clusterra_snapshots_published_total", "Queue snapshots, by reason of publication", ("why",))


class SnapshotPublisher:
    """Publishes one cluster's snapshots. Generations increase across restarts; several wake-ups make one snapshot."""

    def __init__(self, cluster: Cluster, client: Client, intervals: Intervals) -> None:
        self._cluster = cluster
        self._client = client
        self._intervals = intervals
        self._wake = asyncio.Event()
        self._last: QueueSnapshot | None = None
        self._last_at = 0.0

    @property
    def urgent(self) -> bool:
        """Whether the scaler's decisions depend on the next snapshot; True before the first one."""
        return self._last is None or urgent(self._last)

    def wake(self) -> None:
        """Check whether there is something to publish."""
        self._wake.set()

    async def run(self) -> None:
        """Publish snapshots, forever."""
        latest = await self._latest_generation()
        while True:
            await self._wake.wait()
            self._wake.clear()
            snapshot = self._take_snapshot(generation(latest))
            changed = not same_queue(self._last, snapshot)
            pause = URGENT_SECONDS if urgent(snapshot) else self._intervals.quiet_seconds
            if not changed and time.monotonic() - self._last_at < pause:
                continue
            if await self._publish(snapshot):
                latest, self._last, self._last_at = snapshot.generation, snapshot, time.monotonic()
                PUBLISHED.labels("change" if changed else "time").inc()
            else:
                # Retry with a new snapshot: this one is outdated by then.
                await asyncio.sleep(RETRY_SECONDS)
                self._wake.set()

    def _take_snapshot(self, number: int) -> QueueSnapshot:
        cluster = self._cluster
        read = [moment for moment in (cluster.jobs_observed_at, cluster.nodes_observed_at) if moment is not None]
        published_at = now()
        taken_at = min(read, default=published_at)
        jobs_known, nodes_known = cluster.jobs_observed_at is not None, cluster.nodes_observed_at is not None
        return QueueSnapshot(
            generation=number,
            taken_at=taken_at,
            published_at=published_at,
            valid_seconds=self._intervals.valid_seconds((published_at - taken_at).total_seconds()),
            pending=pending_jobs(cluster.jobs, cluster.jobs.waiting_tasks, published_at) if jobs_known else None,
            running=running_jobs(cluster.jobs, cluster.owner_name) if jobs_known else None,
            nodes=node_states(cluster.nodes.values()) if nodes_known else None,
            unreadable_jobs=cluster.unreadable_jobs if jobs_known else 0,
            unreadable_nodes=cluster.unreadable_nodes if nodes_known else 0,
            traces=pending_traces(cluster.jobs) if jobs_known else {},
        )

    async def _publish(self, snapshot: QueueSnapshot) -> bool:
        ref = self._cluster.ref
        message_id = f"{ref.key}:snapshot:{snapshot.generation}"
        try:
            await bus.publish_durable(self._client, subjects.job_pending(ref), snapshot, message_id=message_id)
        except (BusUnavailable, MessageRejected) as error:
            log.warning("snapshot_not_published", generation=snapshot.generation, reason=str(error))
            return False
        return True

    async def _latest_generation(self) -> int:
        while True:
            try:
                stored = await bus.last(
                    self._client, JOB.name, subjects.job_partitioned(self._cluster.ref), QueueSnapshot
                )
            except BusUnavailable as error:
                log.warning("last_snapshot_not_read", reason=str(error))
                await asyncio.sleep(RETRY_SECONDS)
            except InvalidMessage as error:
                log.warning("last_snapshot_unreadable", reason=str(error))
                return 0
            else:
                return stored[0].generation if stored else 0
