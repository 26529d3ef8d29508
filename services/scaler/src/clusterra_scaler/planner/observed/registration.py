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
from typing import Self

from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.identity import ShapeName, WorkerName

from clusterra_scaler.planner.estimates.provisioning_latency import Boots
from clusterra_scaler.planner.observed.observation import Seen
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

    def looked_at(self, worker: Worker, seen: Seen, limit_seconds: float) -> Self:
        """As one more snapshot shows it."""
        taken_at = seen.snapshot.taken_at
        serves_since = (self.serves_since or taken_at) if worker.phase == "running" else None
        overdue = _seconds(serves_since or max(self.since, self.started_at), taken_at) >= limit_seconds
        overdue_in = (self.overdue_in or seen.snapshot.generation) if overdue else None
        if (serves_since, limit_seconds, overdue_in) == (self.serves_since, self.limit_seconds, self.overdue_in):
            # So it is with nearly all, at each look.
            return self
        return replace(self, serves_since=serves_since, limit_seconds=limit_seconds, overdue_in=overdue_in)

    @property
    def booted_before_our_eyes(self) -> bool:
        """Whether it has not registered ever since it was started; a record may also have been lost later on."""
        return _seconds(self.started_at, self.since) < self.limit_seconds


@dataclass(frozen=True, slots=True)
class Looks:
    """What the snapshots have shown of workers that Slurm does not have. Each snapshot counts once."""

    boots: Boots = field(default_factory=Boots)
    unregistered: Mapping[WorkerName, Unregistered] = field(default_factory=dict)
    generation: int = 0
    """The last snapshot that counted."""

    def after(self, seen: Seen) -> Self:
        """With one more look, if this is one."""
        taken_at, generation = seen.snapshot.taken_at, seen.snapshot.generation
        if not seen.whole or generation <= self.generation:
            return self
        alive = {node.name for node in seen.snapshot.nodes or () if not node.gone}
        standing = {worker.name: worker for worker in seen.edge.workers or () if worker.phase in ("booting", "running")}
        boots = self.boots
        for name, each in self.unregistered.items():
            if name in alive:
                if each.booted_before_our_eyes:
                    boots = boots.with_ended(each.shape, max(_seconds(each.started_at, taken_at), 0.0))
            elif name not in standing and each.overdue_in is not None:
                boots = boots.with_given_up(each.shape, max(_seconds(each.started_at, taken_at), 0.0))
        shapes = {worker.shape for worker in standing.values()}
        limits_seconds = {shape: boots.limit_seconds(shape, seen.binding.policy) for shape in shapes}
        unregistered = {
            name: self._known(worker, taken_at).looked_at(worker, seen, limits_seconds[worker.shape])
            for name, worker in standing.items()
            if name not in alive
        }
        return replace(self, boots=boots, unregistered=unregistered, generation=generation)

    def _known(self, worker: Worker, taken_at: datetime) -> Unregistered:
        known = self.unregistered.get(worker.name)
        # A StatefulSet's pods are other workers of the same name.
        if known is not None and known.started_at == worker.started_at:
            return known
        return Unregistered(worker.shape, worker.started_at, taken_at, None, 0.0)


@dataclass(frozen=True, slots=True)
class Ghost:
    """A worker that may be removed although it was never drained."""

    serves: bool
    """If it does not, it may be removed only as long as it does not."""
    reason: str
    """Why, in words that follow its name."""


def ghosts(seen: Seen, looks: Looks) -> Mapping[WorkerName, Ghost]:
    """The workers that a whole view shows to be no use."""
    known_to_slurm = {node.name for node in seen.snapshot.nodes or ()}
    known_to_slurm |= {name for job in seen.snapshot.running or () for name in job.nodes}
    fresh = _seconds(seen.snapshot.taken_at, seen.now) <= FRESH_SECONDS
    found: dict[WorkerName, Ghost] = {}
    for worker in seen.edge.workers or ():
        each = looks.unregistered.get(worker.name)
        if each is None or each.overdue_in is None or seen.snapshot.generation <= each.overdue_in:
            continue
        if worker.name in known_to_slurm:
            continue
        if worker.phase == "booting" and each.serves_since is None:
            found[worker.name] = Ghost(serves=False, reason=f"never registered within {each.limit_seconds:.0f} s")
        elif worker.phase == "running" and each.serves_since is not None and fresh:
            found[worker.name] = Ghost(serves=True, reason=f"served for {each.limit_seconds:.0f} s unknown to Slurm")
    return found


def taken_back(seen: Seen, state: FleetState) -> frozenset[WorkerName]:
    """Workers named as unregistered that stand, and have registered or begun to serve by now."""
    if not seen.whole:
        return frozenset()
    registered = {node.name for node in seen.snapshot.nodes or ()}
    named = {name for target in state.targets for name in target.unregistered}
    return frozenset(
        worker.name
        for worker in seen.edge.workers or ()
        if worker.name in named
        and (worker.phase == "running" or (worker.phase == "booting" and worker.name in registered))
    )


def _seconds(since: datetime, until: datetime) -> float:
    return (until - since).total_seconds()
