"""Finds overdue workers: those that the edge has and Slurm has not registered within the limit of their shape.

Slurm cannot drain a worker before it has a record of it. So nothing prevents the worker from registering at the very
moment of its removal. How it may be removed depends on its phase:

- `booting`: its slurmd does not serve yet, so the worker has not registered. It is named in the target's
  `unregistered`, and the edge checks once more: it removes the worker only while its slurmd still does not serve.
- `running`: its slurmd serves and may register at any time, and nobody can check and remove it in one step. So it gets
  another limit, counted from the first snapshot in which it served, and the last snapshot must be fresh. What remains
  is the second between that snapshot and the removal: after minutes without a registration Slurm would have to accept
  the worker just then and give it a job. Then the victim is taken back, see `taken_back`.

The first limit is the shape's (see `ProvisioningLatency.limit_seconds`), counted from the first snapshot without a
record. The second is never longer than `SERVING_SECONDS`: a slurmd that serves has only to register, and asks every few
seconds. slurmctld forgets a worker that registered after it last saved its state before a crash. That slurmd believes
to be registered, and will not ask again. While Slurm does not answer, no slurmd can register, so the second limit
counts anew from the first snapshot after a gap.

Each must be confirmed by two snapshots taken after the limit. Only complete observations count. A takeover loses the
counted time, which only delays a removal.

A worker that has a record but whose slurmd does not answer is not covered here: its node can be drained, and is removed
like any other. A worker that was named and registers all the same is reinstated (`recovered`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated, Self

from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.identity import ShapeName, WorkerName
from pydantic import Field

from clusterra_scaler.planner.estimates.provisioning_latency import ProvisioningLatency
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.state import FleetState

SNAPSHOT_FRESH_SECONDS = 15.0
"""Maximum age of the snapshot by which a serving worker is removed. A proxy polls a quiet cluster less often."""
SERVING_SECONDS = 120.0
"""How long a worker may serve without being known to Slurm, at most."""


@dataclass(frozen=True, slots=True)
class UnregisteredWorker:
    """An active worker that Slurm has no record of, or only the record of a node that is gone."""

    shape: ShapeName
    started_at: datetime
    since: datetime
    """When the first snapshot without its record was taken."""
    serves_since: datetime | None
    """When the first of the latest snapshots without its record was taken in which it served; None if it does not."""
    limit_seconds: float
    """The limit of its shape."""
    overdue_in: int | None = None
    """Generation of the first snapshot after the limit; None before it."""

    def after(self, worker: Worker, observation: Observation, limit_seconds: float, *, gap: bool) -> Self:
        """Add a snapshot that has no record of the worker. `gap`: Slurm could not be read for a while before it."""
        taken_at = observation.snapshot.taken_at
        served_before = None if gap else self.serves_since
        serves_since = (served_before or taken_at) if worker.phase == "running" else None
        if serves_since is None:
            overdue = _seconds(max(self.since, self.started_at), taken_at) >= limit_seconds
        else:
            overdue = _seconds(serves_since, taken_at) >= min(limit_seconds, SERVING_SECONDS)
        overdue_in = (self.overdue_in or observation.snapshot.generation) if overdue else None
        if (serves_since, limit_seconds, overdue_in) == (self.serves_since, self.limit_seconds, self.overdue_in):
            # Nearly all workers are unchanged in each snapshot.
            return self
        return replace(self, serves_since=serves_since, limit_seconds=limit_seconds, overdue_in=overdue_in)

    @property
    def started_under_observation(self) -> bool:
        """Whether it has had no record since it was started. Otherwise Slurm may have lost the record later."""
        return _seconds(self.started_at, self.since) < self.limit_seconds


@dataclass(frozen=True, slots=True)
class Registrations:
    """The workers without a record, and the latency of those that have registered. Each snapshot counts once."""

    latency: Annotated[ProvisioningLatency, Field(alias="boots")] = field(default_factory=ProvisioningLatency)
    unregistered: Mapping[WorkerName, UnregisteredWorker] = field(default_factory=dict)
    generation: int = 0
    """Generation of the last snapshot that counted."""
    counted_at: datetime | None = None
    """When the last snapshot that counted was taken."""

    def after(self, observation: Observation) -> Self:
        """Add an observation, if it is complete and its snapshot is a new one."""
        taken_at, generation = observation.snapshot.taken_at, observation.snapshot.generation
        if not observation.complete or generation <= self.generation:
            return self
        alive = {node.name for node in observation.snapshot.nodes or () if not node.not_responding}
        active = {
            worker.name: worker for worker in observation.edge.workers or () if worker.phase in ("booting", "running")
        }
        latency = self.latency
        for name, each in self.unregistered.items():
            if name in alive:
                if each.started_under_observation:
                    latency = latency.with_registered(each.shape, max(_seconds(each.started_at, taken_at), 0.0))
            elif name not in active and each.overdue_in is not None:
                latency = latency.with_given_up(each.shape, max(_seconds(each.started_at, taken_at), 0.0))
        shapes = {worker.shape for worker in active.values()}
        limits_seconds = {shape: latency.limit_seconds(shape, observation.binding.policy) for shape in shapes}
        gap = self.counted_at is not None and _seconds(self.counted_at, taken_at) > observation.snapshot.valid_seconds
        unregistered = {
            name: self._known(worker, taken_at).after(worker, observation, limits_seconds[worker.shape], gap=gap)
            for name, worker in active.items()
            if name not in alive
        }
        return replace(self, latency=latency, unregistered=unregistered, generation=generation, counted_at=taken_at)

    def _known(self, worker: Worker, taken_at: datetime) -> UnregisteredWorker:
        known = self.unregistered.get(worker.name)
        # A StatefulSet's next pod is another worker of the same name.
        if known is not None and known.started_at == worker.started_at:
            return known
        return UnregisteredWorker(worker.shape, worker.started_at, taken_at, None, 0.0)


@dataclass(frozen=True, slots=True)
class OverdueWorker:
    """A worker that may be removed without a drain."""

    serves: bool
    """Whether its slurmd serves. If not, it may be removed only while that stays so."""
    reason: str
    """Why, as a phrase that follows its name."""


def overdue_workers(observation: Observation, registrations: Registrations) -> Mapping[WorkerName, OverdueWorker]:
    """The overdue workers by a complete observation."""
    known_to_slurm = {node.name for node in observation.snapshot.nodes or ()}
    known_to_slurm |= {name for job in observation.snapshot.running or () for name in job.nodes}
    fresh = _seconds(observation.snapshot.taken_at, observation.now) <= SNAPSHOT_FRESH_SECONDS
    found: dict[WorkerName, OverdueWorker] = {}
    for worker in observation.edge.workers or ():
        each = registrations.unregistered.get(worker.name)
        if each is None or each.overdue_in is None or observation.snapshot.generation <= each.overdue_in:
            continue
        if worker.name in known_to_slurm:
            continue
        if worker.phase == "booting" and each.serves_since is None:
            found[worker.name] = OverdueWorker(
                serves=False, reason=f"never registered within {each.limit_seconds:.0f} s"
            )
        elif worker.phase == "running" and each.serves_since is not None and fresh:
            found[worker.name] = OverdueWorker(
                serves=True, reason=f"served for {min(each.limit_seconds, SERVING_SECONDS):.0f} s unknown to Slurm"
            )
    return found


def recovered(observation: Observation, state: FleetState) -> frozenset[WorkerName]:
    """Active workers that were named as unregistered, and have registered or begun to serve since."""
    if not observation.complete:
        return frozenset()
    registered = {node.name for node in observation.snapshot.nodes or ()}
    named = {name for target in state.targets for name in target.unregistered}
    return frozenset(
        worker.name
        for worker in observation.edge.workers or ()
        if worker.name in named
        and (worker.phase == "running" or (worker.phase == "booting" and worker.name in registered))
    )


def _seconds(since: datetime, until: datetime) -> float:
    return (until - since).total_seconds()
