"""The summary of a cluster's queue: how many jobs wait and run, and what its nodes do. It names nobody's jobs."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass
from datetime import datetime

import structlog
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import InvalidMessage
from clusterra_contracts.bus.large_queue import decode_head
from clusterra_contracts.bus.topology import JOB
from clusterra_contracts.identity import ClusterRef, Moment, now
from clusterra_contracts.queue import QueueSnapshot
from clusterra_runtime.nats.bus import BusUnavailable, Client
from clusterra_runtime.nats.direct import Stored, last_stored
from clusterra_runtime.nats.queue import DECODED_ON_THREAD_FROM_BYTES
from clusterra_runtime.nats.registry import Registry

from clusterra_gateway.http.answers.responses import ResponseBody

log = structlog.get_logger()

LARGE_SECONDS = 2.0
"""How long the summary of a large queue is kept: its message has megabytes, and the next one follows no earlier."""


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
    counts = snapshot.list_counts
    return QueueSummary(
        as_of=snapshot.taken_at,
        stale=_is_stale(snapshot.taken_at, snapshot.valid_seconds, at),
        pending=counts.pending,
        running=counts.running,
        nodes=counts.nodes,
        node_summary=_nodes(snapshot),
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


@dataclass(frozen=True, slots=True)
class _Known:
    sequence: int
    """The position of the snapshot in its stream."""
    summary: QueueSummary
    valid_seconds: float
    keep_until: float
    """No newer snapshot is looked for before, by the monotonic clock."""


class QueueSummaries:
    """Reads the last snapshot of a cluster at each request, a large one every 2 s, and decodes each snapshot once."""

    def __init__(self, client: Client, registry: Registry) -> None:
        self._client = client
        self._registry = registry
        self._known: dict[ClusterRef, _Known] = {}

    async def of(self, ref: ClusterRef) -> QueueSummary | None:
        """Return the summary of a cluster's queue; None before the first snapshot, or when it cannot be read."""
        known = self._known.get(ref)
        try:
            if known is None or time.monotonic() >= known.keep_until:
                stored = await last_stored(self._client, JOB.name, subjects.job_sharded(ref))
                if stored is None:
                    return None
                known = await self._read(ref, stored, known)
        except (BusUnavailable, InvalidMessage) as error:
            log.warning("queue_not_read", tenant=ref.tenant, cluster=ref.cluster, reason=str(error))
            return None
        # Only this changes while the snapshot stays the same.
        stale = _is_stale(known.summary.as_of, known.valid_seconds, now())
        return known.summary.model_copy(update={"stale": stale})

    async def _read(self, ref: ClusterRef, stored: Stored, known: _Known | None) -> _Known:
        if known is not None and known.sequence == stored.sequence:
            return known
        if len(stored.body) < DECODED_ON_THREAD_FROM_BYTES:
            snapshot = decode_head(stored.body, stored.headers)
        else:
            snapshot = await asyncio.to_thread(decode_head, stored.body, stored.headers)
        keep_until = time.monotonic() + (LARGE_SECONDS if snapshot.is_head else 0.0)
        read = _Known(stored.sequence, summary_of(snapshot, now()), snapshot.valid_seconds, keep_until)
        self._known = {each: kept for each, kept in self._known.items() if each in self._registry.clusters}
        self._known[ref] = read
        return read
