"""Subscribes to the bus and records when each job reached each stage between submit and run."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import InvalidMessage, decode
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.bus.topology import HB
from clusterra_contracts.events import Event, JobFact, NodeFact
from clusterra_contracts.heartbeat import HEARTBEAT_SECONDS, Heartbeat
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.scale import DesiredState
from clusterra_runtime.nats import direct
from clusterra_runtime.nats.bus import subscribe
from clusterra_runtime.nats.client import Client


@dataclass(frozen=True)
class Decision:
    """A desired state as it arrived on the bus."""

    order: tuple[int, int]
    """Fence and generation: later decisions compare greater."""
    snapshot_generation: int
    decided_at: datetime
    published_at: datetime


@dataclass(frozen=True)
class Stages:
    """When a job reached each stage; None for a stage that it skipped because a worker was already running."""

    snapshot: datetime | None
    decided: datetime | None
    published: datetime | None
    applied: datetime | None


@dataclass
class Observer:
    """The messages recorded so far. Times are the sender's where the message carries one, else those of arrival."""

    snapshots: dict[str, int] = field(default_factory=dict)
    """Generation (milliseconds since the epoch) of the first snapshot that names a job, by Slurm's own job id."""
    decisions: list[Decision] = field(default_factory=list)
    applied: list[tuple[tuple[int, int], datetime]] = field(default_factory=list)
    workers: dict[str, int] | None = None
    """Number of workers by shape in the last heartbeat that had a list of them."""
    workers_peak: dict[str, int] = field(default_factory=dict)
    total_peak: int = 0
    job_events: dict[tuple[str, str], Event] = field(default_factory=dict)
    """The job events, by job id and kind."""
    states: dict[str, str] = field(default_factory=dict)
    """State of each job by its last event. The times of these events are too coarse to measure with."""
    registered: dict[str, datetime] = field(default_factory=dict)
    """Time of each node's last `node.registered` event."""

    async def on_snapshot(self, subject: Subject, snapshot: QueueSnapshot) -> None:
        """Record the jobs that this snapshot is the first to name."""
        for group in snapshot.pending or ():
            for job_id in group.job_ids:
                self.snapshots.setdefault(job_id, snapshot.generation)
        for job in snapshot.running or ():
            self.snapshots.setdefault(array_of(job.job_id), snapshot.generation)

    async def on_desired(self, subject: Subject, desired: DesiredState) -> None:
        """Record a decision."""
        self.decisions.append(Decision(desired.order, desired.snapshot_generation, desired.decided_at, now()))

    async def on_heartbeat(self, subject: Subject, beat: Heartbeat) -> None:
        """Record the desired state that the edge has applied, and its workers."""
        if beat.applied is not None:
            order = (beat.applied.fence, beat.applied.generation)
            if not self.applied or self.applied[-1][0] < order:
                self.applied.append((order, beat.applied.applied_at))
        if beat.workers is not None:
            counts: dict[str, int] = {}
            for worker in beat.workers:
                counts[worker.shape] = counts.get(worker.shape, 0) + 1
            self.workers = counts
            self.total_peak = max(self.total_peak, sum(counts.values()))
            for shape, count in counts.items():
                self.workers_peak[shape] = max(self.workers_peak.get(shape, 0), count)

    async def on_event(self, subject: Subject, event: Event) -> None:
        """Record the state of a job or the registration of a node."""
        if isinstance(event.data, NodeFact) and event.data.kind == "node.registered":
            self.registered[event.data.node] = event.time
        if isinstance(event.data, JobFact):
            self.job_events[event.data.job_id, event.data.kind] = event
            self.states[event.data.job_id] = event.data.state

    def stages(self, job_id: str, accepted: datetime, running: datetime) -> Stages:
        """The stages of a job with the given times of acceptance and start."""
        generation = self.snapshots.get(array_of(job_id))
        decision = next(
            (
                made
                for made in self.decisions
                if generation is not None and made.snapshot_generation >= generation and made.decided_at <= running
            ),
            None,
        )
        applied = next(
            (at for order, at in self.applied if decision is not None and order >= decision.order and at <= running),
            None,
        )
        return Stages(
            snapshot=datetime.fromtimestamp(generation / 1000, accepted.tzinfo) if generation is not None else None,
            decided=decision.decided_at if decision else None,
            published=decision.published_at if decision else None,
            applied=applied,
        )


def array_of(job_id: str) -> str:
    """The job id under which the array of a task is queued."""
    return job_id.partition("_")[0]


@asynccontextmanager
async def observe(client: Client, ref: ClusterRef) -> AsyncIterator[Observer]:
    """Observe one cluster until the block ends, from its last heartbeat on.

    `client` must be allowed to read the cluster's subjects, and the stream of heartbeats. Raises BusUnavailable.
    """
    observer = Observer()
    subscriptions = [
        await subscribe(client, subjects.job_pending(ref), QueueSnapshot, observer.on_snapshot),
        await subscribe(client, subjects.scale_desired(ref), DesiredState, observer.on_desired),
        await subscribe(client, subjects.heartbeat(ref), Heartbeat, observer.on_heartbeat),
        await subscribe(client, subjects.events_of(ref), Event, observer.on_event),
    ]
    try:
        last = await _last_heartbeat(client, ref)
        if last is not None and observer.workers is None:
            await observer.on_heartbeat(subjects.parse(subjects.heartbeat(ref)), last)
        yield observer
    finally:
        for subscription in subscriptions:
            await subscription.unsubscribe()


async def _last_heartbeat(client: Client, ref: ClusterRef) -> Heartbeat | None:
    """The last heartbeat of an edge that is alive: its next one may be seconds away. None if it cannot be read."""
    stored = await direct.last_stored(client, HB.name, subjects.heartbeat(ref))
    if stored is None or stored.stored_at is None or now() - stored.stored_at > timedelta(seconds=HEARTBEAT_SECONDS):
        return None
    try:
        return decode(Heartbeat, stored.body, stored.headers)
    except InvalidMessage:
        return None
