"""The summary of a cluster's queue: how many jobs wait and run, and what its nodes do. It names nobody's jobs."""

import asyncio
from collections import Counter
from datetime import datetime

import structlog
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import InvalidMessage, decode
from clusterra_contracts.bus.topology import JOB
from clusterra_contracts.identity import ClusterRef, Moment, now
from clusterra_contracts.queue import QueueSnapshot
from clusterra_runtime.nats.bus import BusUnavailable, Client
from clusterra_runtime.nats.direct import Stored, last_stored
from clusterra_runtime.nats.registry import Registry

from clusterra_gateway.http.responses import ResponseBody

log = structlog.get_logger()

DECODED_ON_THREAD_FROM_BYTES = 64 * 1024
"""Reading a larger snapshot would hold up other requests for more than a millisecond."""


class NodeSummary(ResponseBody):
    """What the nodes of a cluster do. `by_state` counts them by Slurm's base state, `draining` those with that flag."""

    by_state: dict[str, int]
    draining: int
    cpus: int
    cpus_allocated: int


class QueueSummary(ResponseBody):
    """The queue as the proxy last published it. A number is null where Slurm did not tell it.

    `as_of` is when it was observed, and `stale` whether that is too long ago to decide anything from it. An array that
    waits counts as one job. `node_summary` is null also for clusters of thousands of jobs or nodes.
    """

    as_of: Moment
    stale: bool
    pending: int | None
    running: int | None
    nodes: int | None
    node_summary: NodeSummary | None
    unreadable: int
    """Records of jobs and nodes that could not be read, and count nowhere else."""


def summary_of(snapshot: QueueSnapshot, at: datetime) -> QueueSummary:
    """Return the summary of a snapshot at this moment."""
    pending = None if snapshot.pending is None else sum(len(group.job_ids) for group in snapshot.pending)
    running = None if snapshot.running is None else len(snapshot.running)
    nodes = None if snapshot.nodes is None else len(snapshot.nodes)
    if snapshot.parts is not None:
        counts = snapshot.parts.counts
        pending, running, nodes = counts.get("pending"), counts.get("running"), counts.get("nodes")
    return QueueSummary(
        as_of=snapshot.taken_at,
        stale=_is_stale(snapshot.taken_at, snapshot.valid_seconds, at),
        pending=pending,
        running=running,
        nodes=nodes,
        node_summary=None if snapshot.parts is not None else _nodes(snapshot),
        unreadable=snapshot.unreadable_jobs + snapshot.unreadable_nodes,
    )


def _is_stale(taken_at: datetime, valid_seconds: float, at: datetime) -> bool:
    return (at - taken_at).total_seconds() > valid_seconds


def _nodes(snapshot: QueueSnapshot) -> NodeSummary | None:
    if snapshot.nodes is None:
        return None
    return NodeSummary(
        by_state=dict(sorted(Counter(node.states[0] for node in snapshot.nodes if node.states).items())),
        draining=sum(node.draining for node in snapshot.nodes),
        cpus=sum(node.cpus for node in snapshot.nodes),
        cpus_allocated=sum(node.cpus_allocated for node in snapshot.nodes),
    )


class QueueSummaries:
    """Reads the last snapshot of a cluster at each request, and decodes each snapshot once."""

    def __init__(self, client: Client, registry: Registry) -> None:
        self._client = client
        self._registry = registry
        self._decoded: dict[ClusterRef, tuple[int, QueueSummary, float]] = {}
        """By cluster: the position of its last snapshot, the summary, and for how many seconds it is valid."""

    async def of(self, ref: ClusterRef) -> QueueSummary | None:
        """Return the summary of a cluster's queue; None before the first snapshot, or when it cannot be read."""
        try:
            stored = await last_stored(self._client, JOB.name, subjects.job_partitioned(ref))
            return None if stored is None else await self._summary(ref, stored)
        except (BusUnavailable, InvalidMessage) as error:
            log.warning("queue_not_read", tenant=ref.tenant, cluster=ref.cluster, reason=str(error))
            return None

    async def _summary(self, ref: ClusterRef, stored: Stored) -> QueueSummary:
        known = self._decoded.get(ref)
        if known is None or known[0] != stored.sequence:
            if len(stored.body) < DECODED_ON_THREAD_FROM_BYTES:
                snapshot = _decoded(stored)
            else:
                snapshot = await asyncio.to_thread(_decoded, stored)
            known = (stored.sequence, summary_of(snapshot, now()), snapshot.valid_seconds)
            self._decoded = {each: kept for each, kept in self._decoded.items() if each in self._registry.clusters}
            self._decoded[ref] = known
        _, summary, valid_seconds = known
        # Only this changes while the snapshot stays the same.
        return summary.model_copy(update={"stale": _is_stale(summary.as_of, valid_seconds, now())})


def _decoded(stored: Stored) -> QueueSnapshot:
    return decode(QueueSnapshot, stored.body, dict(stored.headers))
