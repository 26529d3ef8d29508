"""Which ready workers are closed to which classes of jobs (see `contracts.node_extra` and `packing.veto`).

A worker refuses the classes whose jobs would cost more there than on a new worker. It refuses only those that it has
room for, and takes every class whose job cannot have a new worker: a job never waits for money alone.

A closed worker names all classes that it takes. Only so many are looked at, those of the jobs whose turn is next; a
worker that is closed to some of these is closed to the rest, too, unless the plan has put such a job there.
"""

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from clusterra_contracts.identity import JobId, WorkerName
from clusterra_contracts.node_extra import OPEN, job_class, says_what_it_takes
from clusterra_contracts.node_extra import closed as closed_to_others
from clusterra_contracts.queue import QueueSnapshot

from clusterra_scaler.planner.observed.supply import Supply
from clusterra_scaler.planner.packing.bins import Bin, cheapest_new
from clusterra_scaler.planner.packing.items import Group, Offering
from clusterra_scaler.planner.packing.placement_predicate import rejects
from clusterra_scaler.planner.packing.settings import Settings
from clusterra_scaler.planner.placement.fleet_bins import FleetBin
from clusterra_scaler.planner.requests.demand import Demand

MOST_CLASSES = 200
"""A node's Extra comes with each answer of Slurm, and each class is held against each worker."""

_NOBODY: frozenset[WorkerName] = frozenset()


@dataclass(slots=True)
class _Ready:
    """A worker that Slurm has. The room is as before anything is planned."""

    extra: str
    bin: Bin
    booked: Collection[JobId]
    closed: set[str] = field(default_factory=set)
    """The classes that it refuses."""
    let_in: set[str] = field(default_factory=set)
    """Classes that were not looked at, of jobs that the plan has put there."""


class ClosedNodes:
    """Of one decision, by the rooms as they are before anything is planned."""

    def __init__(
        self,
        fleet_bins: Sequence[FleetBin],
        supply: Supply,
        classes: Mapping[str, Group],
        let_in_everywhere: Collection[str],
        offerings: Sequence[Offering],
        settings: Settings,
    ) -> None:
        """`classes` have one share of a job each. Those to be let in everywhere are not among them."""
        self._classes = classes
        self._let_in_everywhere = let_in_everywhere
        self._ready: dict[WorkerName, _Ready] = {}
        self._refusing: defaultdict[str, set[WorkerName]] = defaultdict(set)
        smallest_first = [
            (group, name, new[0])
            for name, group in sorted(classes.items(), key=lambda each: each[1].cpus)
            if (new := cheapest_new(group, offerings, settings))
        ]
        for fleet_bin in fleet_bins:
            node = supply.nodes.get(fleet_bin.place.worker)
            if not fleet_bin.ready or node is None or (node.extra and not says_what_it_takes(node.extra)):
                continue
            ready = _Ready(node.extra, fleet_bin.bin.copy(), fleet_bin.booking.jobs if fleet_bin.booking else ())
            self._ready[node.name] = ready
            for group, name, new_usd in smallest_first:
                if group.cpus > ready.bin.cpus:
                    break
                if ready.bin.takes(group) and rejects(ready.bin, group, new_usd, settings):
                    ready.closed.add(name)
                    self._refusing[name].add(node.name)
        self._closed = {name for name, ready in self._ready.items() if ready.closed}

    def by(self, demand: Demand) -> AbstractSet[WorkerName]:
        """The workers on which Slurm is to start no such job."""
        name = job_class(demand.extra)
        if name is None or name in self._let_in_everywhere:
            return _NOBODY
        return self._refusing.get(name, _NOBODY) if name in self._classes else self._closed

    def let_in(self, fleet_bin: FleetBin, demand: Demand) -> None:
        """Take jobs that cannot have a new worker."""
        name, ready = job_class(demand.extra), self._ready.get(fleet_bin.place.worker)
        if name is not None and ready is not None:
            ready.closed.discard(name)
            self._refusing[name].discard(fleet_bin.place.worker)
            if name not in self._classes:
                ready.let_in.add(name)

    def extras(self, booked: Iterable[Demand]) -> dict[WorkerName, str]:
        """The Extra of each worker that must have another one. `booked` are demands that have bookings."""
        owners = {job_id: name for demand in booked if (name := job_class(demand.extra)) for job_id in demand.job_ids}
        wanted: dict[WorkerName, str] = {}
        for worker, ready in self._ready.items():
            own = {owners[job_id] for job_id in ready.booked if job_id in owners}
            closed = set(ready.closed)
            if ready.booked:
                closed |= {
                    name for name, group in self._classes.items() if name not in own and not ready.bin.takes(group)
                }
            allowed = {*self._let_in_everywhere, *self._classes, *own, *ready.let_in} - closed
            extra = closed_to_others(allowed) if closed else OPEN
            if extra != ready.extra:
                wanted[worker] = extra
        return wanted


def opened(snapshot: QueueSnapshot, besides: Container[WorkerName]) -> dict[WorkerName, str]:
    """The Extra of nodes, besides some, that take not all jobs, for a policy that refuses none.

    Those register open. One that was closed under another policy is opened, and so is a node that says nothing once
    there are jobs with a class: it would take none of them.
    """
    expressions = [group.extra for group in snapshot.pending or ()] + [job.extra for job in snapshot.running or ()]
    classes = any(map(job_class, expressions))
    return {
        node.name: OPEN
        for node in snapshot.nodes or ()
        if node.name not in besides
        and node.extra != OPEN
        and (says_what_it_takes(node.extra) if node.extra else classes)
    }
