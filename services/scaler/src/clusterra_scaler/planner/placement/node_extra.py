"""Which registered workers are closed to which job classes (see `contracts.node_extra`).

A node's Extra in Slurm is the placement predicate: a worker is closed to the classes whose jobs would cost more there
than on a new worker and the wait for its boot (`packing.placement_predicate`). It is closed only to jobs that it could
hold, and takes every class whose jobs cannot have a new worker: no job waits for money alone.

The Extra of a closed worker names all classes that it takes. At most `MOST_CLASSES` are evaluated, in queue order. A
worker that is closed to some of them is closed to all other classes, too, unless the plan has placed such a job there.
"""

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from clusterra_contracts.identity import JobId, WorkerName
from clusterra_contracts.node_extra import OPEN, is_class_filter, job_class
from clusterra_contracts.node_extra import closed as closed_to_others
from clusterra_contracts.queue import QueueSnapshot

from clusterra_scaler.planner.observed.supply import Supply
from clusterra_scaler.planner.packing.bins import Bin, cheapest_new_worker
from clusterra_scaler.planner.packing.items import Group
from clusterra_scaler.planner.packing.placement_predicate import rejects
from clusterra_scaler.planner.packing.settings import Settings
from clusterra_scaler.planner.placement.fleet_bins import FleetBin
from clusterra_scaler.planner.placement.offers import Offers
from clusterra_scaler.planner.requests.demand import Demand
from clusterra_scaler.planner.time_limit import check

MOST_CLASSES = 200
"""Bounds the length of a node's Extra, which comes with each answer of Slurm, and the work per decision."""

_NOBODY: frozenset[WorkerName] = frozenset()


@dataclass(slots=True)
class _RegisteredNode:
    """A registered worker."""

    extra: str
    booked: Collection[JobId]
    closed: set[str] = field(default_factory=set)
    """The classes that it does not take."""
    admitted: set[str] = field(default_factory=set)
    """Classes that were not evaluated and whose jobs the plan has placed there."""


class ClosedNodes:
    """The closed nodes of one decision, by the bins as they are before any job is assigned."""

    def __init__(
        self,
        fleet_bins: Sequence[FleetBin],
        supply: Supply,
        classes: Mapping[str, Group],
        admitted_everywhere: Collection[str],
        offers: Offers,
        settings: Settings,
    ) -> None:
        """`classes` maps each job class to one node's share of a job; it has none that is admitted everywhere."""
        self._classes = classes
        self._admitted_everywhere = admitted_everywhere
        self._registered: dict[WorkerName, _RegisteredNode] = {}
        self._bins: dict[WorkerName, Bin] = {}
        """Of the registered workers, before any job is assigned. Without classes none is needed, and to make one takes
        longer than all else here."""
        self._closed_workers: defaultdict[str, set[WorkerName]] = defaultdict(set)
        smallest_first = [
            (group, name, new[0] + offers.wait_usd(new[1].shape))
            for name, group in sorted(classes.items(), key=lambda each: each[1].cpus)
            if (new := cheapest_new_worker(group, offers.offerings, settings))
        ]
        for fleet_bin in fleet_bins:
            check()
            node = supply.nodes.get(fleet_bin.place.worker)
            if not fleet_bin.ready or node is None or (node.extra and not is_class_filter(node.extra)):
                continue
            ready = _RegisteredNode(node.extra, fleet_bin.booking.jobs if fleet_bin.booking else ())
            self._registered[node.name] = ready
            if not classes:
                continue
            spare = self._bins[node.name] = fleet_bin.bin.copy()
            for group, name, most_usd in smallest_first:
                if group.cpus > spare.cpus:
                    break
                if spare.fits(group) and rejects(spare, group, most_usd, settings):
                    ready.closed.add(name)
                    self._closed_workers[name].add(node.name)
        self._closed = {name for name, ready in self._registered.items() if ready.closed}

    def closed_to(self, demand: Demand) -> AbstractSet[WorkerName]:
        """The workers that are closed to the jobs of a demand."""
        name = job_class(demand.extra)
        if name is None or name in self._admitted_everywhere:
            return _NOBODY
        return self._closed_workers.get(name, _NOBODY) if name in self._classes else self._closed

    def admit(self, fleet_bin: FleetBin, demand: Demand) -> None:
        """Opens a worker to jobs that cannot have a new one."""
        name, ready = job_class(demand.extra), self._registered.get(fleet_bin.place.worker)
        if name is not None and ready is not None:
            ready.closed.discard(name)
            self._closed_workers[name].discard(fleet_bin.place.worker)
            if name not in self._classes:
                ready.admitted.add(name)

    def extras(self, booked: Iterable[Demand]) -> dict[WorkerName, str]:
        """The Extra of each worker that must have a new one. `booked` are the demands with bookings."""
        owners = {job_id: name for demand in booked if (name := job_class(demand.extra)) for job_id in demand.job_ids}
        wanted: dict[WorkerName, str] = {}
        for worker, ready in self._registered.items():
            own = {owners[job_id] for job_id in ready.booked if job_id in owners}
            closed = set(ready.closed)
            if ready.booked:
                closed |= {
                    name
                    for name, group in self._classes.items()
                    if name not in own and not self._bins[worker].fits(group)
                }
            allowed = {*self._admitted_everywhere, *self._classes, *own, *ready.admitted} - closed
            extra = closed_to_others(allowed) if closed else OPEN
            if extra != ready.extra:
                wanted[worker] = extra
        return wanted


def open_all(snapshot: QueueSnapshot, besides: Container[WorkerName]) -> dict[WorkerName, str]:
    """The Extra that opens closed nodes, except those in `besides`, for a policy that closes none.

    Nodes register open. A node that was closed under another policy is opened, and so is a node without Extra once
    there are jobs with a class: it would take none of them.
    """
    expressions = [group.extra for group in snapshot.pending or ()] + [job.extra for job in snapshot.running or ()]
    classes = any(map(job_class, expressions))
    return {
        node.name: OPEN
        for node in snapshot.nodes or ()
        if node.name not in besides and node.extra != OPEN and (is_class_filter(node.extra) if node.extra else classes)
    }
