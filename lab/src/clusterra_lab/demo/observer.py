"""Listens on the bus and writes down when each stage of a job's way was reached."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.events import Event, JobFact, NodeFact
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.scale import DesiredState
from clusterra_runtime.nats.bus import subscribe
from clusterra_runtime.nats.client import Client


@dataclass(frozen=True)
class Decision:
    """A desired state as it was seen on the bus."""

    order: tuple[int, int]
    snapshot_generation: int
    decided_at: datetime
    published_at: datetime


@dataclass(frozen=True)
class Stages:
    """Moments of one job's way; None where it did not need the stage (a worker was there already)."""

    snapshot: datetime | None
    decided: datetime | None
    published: datetime | None
    applied: datetime | None


@dataclass
class Observer:
    """What was seen so far. Times are the sender's own where the message carries one, else the arrival."""

    snapshots: dict[str, int] = field(default_factory=dict)
    """The generation (milliseconds of the epoch) of the first snapshot with a job, by Slurm's own job id."""
    decisions: list[Decision] = field(default_factory=list)
    applied: list[tuple[tuple[int, int], datetime]] = field(default_factory=list)
    workers: dict[str, int] | None = None
    """Workers by shape in the last heartbeat that knew them."""
    workers_peak: dict[str, int] = field(default_factory=dict)
    total_peak: int = 0
    facts: dict[tuple[str, str], Event] = field(default_factory=dict)
    """The job events seen, by job id and kind."""
    states: dict[str, str] = field(default_factory=dict)
    """Of each job, as its last event tells. Their times are too coarse to go by."""
    registered: dict[str, datetime] = field(default_factory=dict)
    """When each node was seen to have registered."""

    async def on_snapshot(self, subject: Subject, snapshot: QueueSnapshot) -> None:
        """Note which jobs a snapshot is the first to name."""
        for group in snapshot.pending or ():
            for job_id in group.job_ids:
                self.snapshots.setdefault(job_id, snapshot.generation)
        for job in snapshot.running or ():
            self.snapshots.setdefault(array_of(job.job_id), snapshot.generation)

    async def on_desired(self, subject: Subject, desired: DesiredState) -> None:
        """Note a decision."""
        seen = Decision(desired.order, desired.snapshot_generation, desired.decided_at, now())
        self.decisions.append(seen)

    async def on_heartbeat(self, subject: Subject, beat: Heartbeat) -> None:
        """Note what an edge has carried out and what it has."""
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
        """Note what became of jobs and nodes."""
        if isinstance(event.data, NodeFact) and event.data.kind == "node.registered":
            self.registered[event.data.node] = event.time
        if isinstance(event.data, JobFact):
            self.facts[event.data.job_id, event.data.kind] = event
            self.states[event.data.job_id] = event.data.state

    def stages(self, job_id: str, accepted: datetime, running: datetime) -> Stages:
        """The stages of a job that was accepted and began to run at these moments."""
        generation = self.snapshots.get(array_of(job_id))
        decision = next(
            (
                seen
                for seen in self.decisions
                if generation is not None and seen.snapshot_generation >= generation and seen.decided_at <= running
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
    """The id under which a pending array's task is queued."""
    return job_id.partition("_")[0]


@asynccontextmanager
async def observe(client: Client, ref: ClusterRef) -> AsyncIterator[Observer]:
    """Observe one cluster with a client that may read its subjects."""
    observer = Observer()
    subscriptions = [
        await subscribe(client, subjects.job_pending(ref), QueueSnapshot, observer.on_snapshot),
        await subscribe(client, subjects.scale_desired(ref), DesiredState, observer.on_desired),
        await subscribe(client, subjects.heartbeat(ref), Heartbeat, observer.on_heartbeat),
        await subscribe(client, subjects.events_of(ref), Event, observer.on_event),
    ]
    try:
        yield observer
    finally:
        for subscription in subscriptions:
            await subscription.unsubscribe()
