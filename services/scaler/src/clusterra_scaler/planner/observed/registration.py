"""Workers that the edge has and Slurm does not know: for how long that may be, and when they may be removed.

A worker cannot be drained before Slurm has its record, so nothing keeps it from registering in the very moment in
which it is removed. What may be done depends on how far it has got:

- `booting`: its slurmd does not serve yet, so it has not registered. It is named as unregistered, and whoever removes
  it looks once more: the edge does so only while it still does not serve. One that serves by then is no ghost.
- `running`: its slurmd serves, and may register at any time; nobody can look and remove in one step. It is waited for
  once more for as long, from when it was first seen to serve, and the last look must be a fresh one. What is left is
  the second between that look and the end of the worker: after minutes of refusals Slurm would have to take it just
  then, and to give it a job.

Both must be so for longer than the limit of the shape (see `boots`), counted from the first look without a record and
seen in two snapshots taken after it. Looks are whole views only: a list that could not be read is no look. A takeover
forgets them, which only delays.

A worker whose record is there, but whose slurmd does not answer, is no case of this: its node can be drained, and goes
as all others do. A worker that was named and has registered all the same is taken back (`taken_back`).
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

FRESH_SECONDS = 15.0
"""How old the snapshot may be by which a worker that serves is removed: proxies look less often while all is quiet."""


@dataclass(frozen=True, slots=True)
class Unregistered:
    """A worker that stands and that Slurm does not have, or not alive."""

    shape: ShapeName
    started_at: datetime
    since: datetime
    """When the first snapshot was taken that showed it so."""
    serves_since: datetime | None
    """When the first snapshot was taken that showed it so while it served, as it has done from then on."""
    limit_seconds: float
    """For how long it may be so."""
    overdue_in: int | None = None
    """The first snapshot that was taken after that."""

    def updated(self, worker: Worker, observation: Observation, limit_seconds: float) -> Self:
        """As one more snapshot shows it."""
        taken_at = observation.snapshot.taken_at
        serves_since = (self.serves_since or taken_at) if worker.phase == "running" else None
        overdue = _seconds(serves_since or max(self.since, self.started_at), taken_at) >= limit_seconds
        overdue_in = (self.overdue_in or observation.snapshot.generation) if overdue else None
        if (serves_since, limit_seconds, overdue_in) == (self.serves_since, self.limit_seconds, self.overdue_in):
            # So it is with nearly all, at each look.
            return self
        return replace(self, serves_since=serves_since, limit_seconds=limit_seconds, overdue_in=overdue_in)

    @property
    def started_under_observation(self) -> bool:
        """Whether it has not registered ever since it was started; a record may also have been lost later on."""
        return _seconds(self.started_at, self.since) < self.limit_seconds


@dataclass(frozen=True, slots=True)
class Registrations:
    """What the snapshots have shown of workers that Slurm does not have. Each snapshot counts once."""

    latency: Annotated[ProvisioningLatency, Field(alias="boots")] = field(default_factory=ProvisioningLatency)
    unregistered: Mapping[WorkerName, Unregistered] = field(default_factory=dict)
    generation: int = 0
    """The last snapshot that counted."""

    def after(self, observation: Observation) -> Self:
        """With one more look, if this is one."""
        taken_at, generation = observation.snapshot.taken_at, observation.snapshot.generation
        if not observation.whole or generation <= self.generation:
            return self
        alive = {node.name for node in observation.snapshot.nodes or () if not node.gone}
        standing = {
            worker.name: worker for worker in observation.edge.workers or () if worker.phase in ("booting", "running")
        }
        latency = self.latency
        for name, each in self.unregistered.items():
            if name in alive:
                if each.started_under_observation:
                    latency = latency.with_ended(each.shape, max(_seconds(each.started_at, taken_at), 0.0))
            elif name not in standing and each.overdue_in is not None:
                latency = latency.with_given_up(each.shape, max(_seconds(each.started_at, taken_at), 0.0))
        shapes = {worker.shape for worker in standing.values()}
        limits_seconds = {shape: latency.limit_seconds(shape, observation.binding.policy) for shape in shapes}
        unregistered = {
            name: self._known(worker, taken_at).updated(worker, observation, limits_seconds[worker.shape])
            for name, worker in standing.items()
            if name not in alive
        }
        return replace(self, latency=latency, unregistered=unregistered, generation=generation)

    def _known(self, worker: Worker, taken_at: datetime) -> Unregistered:
        known = self.unregistered.get(worker.name)
        # A StatefulSet's pods are other workers of the same name.
        if known is not None and known.started_at == worker.started_at:
            return known
        return Unregistered(worker.shape, worker.started_at, taken_at, None, 0.0)


@dataclass(frozen=True, slots=True)
class OverdueWorker:
    """A worker that may be removed although it was never drained."""

    serves: bool
    """If it does not, it may be removed only as long as it does not."""
    reason: str
    """Why, in words that follow its name."""


def overdue_workers(observation: Observation, registrations: Registrations) -> Mapping[WorkerName, OverdueWorker]:
    """The workers that a whole view shows to be no use."""
    known_to_slurm = {node.name for node in observation.snapshot.nodes or ()}
    known_to_slurm |= {name for job in observation.snapshot.running or () for name in job.nodes}
    fresh = _seconds(observation.snapshot.taken_at, observation.now) <= FRESH_SECONDS
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
                serves=True, reason=f"served for {each.limit_seconds:.0f} s unknown to Slurm"
            )
    return found


def recovered(observation: Observation, state: FleetState) -> frozenset[WorkerName]:
    """Workers named as unregistered that stand, and have registered or begun to serve by now."""
    if not observation.whole:
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
