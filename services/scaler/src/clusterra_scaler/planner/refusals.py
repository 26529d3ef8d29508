"""Which ready workers are closed to which classes of jobs (see `contracts.node_extra` and `packing.veto`).

A worker refuses the classes whose jobs would cost more there than on a new worker. It refuses only those that it has
room for, and takes every class whose job cannot have a new worker: a job never waits for money alone.
"""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from clusterra_contracts.identity import JobId, WorkerName
from clusterra_contracts.node_extra import OPEN, job_class, says_what_it_takes
from clusterra_contracts.node_extra import closed as closed_to_others
from clusterra_contracts.queue import QueueSnapshot

from clusterra_scaler.planner.demand import Demand
from clusterra_scaler.planner.fleet_rooms import FleetRoom
from clusterra_scaler.planner.packing.rooms import Room, cheapest_new
from clusterra_scaler.planner.packing.settings import Settings
from clusterra_scaler.planner.packing.vectors import Group, Offering
from clusterra_scaler.planner.packing.veto import refuses
from clusterra_scaler.planner.supply import Supply


@dataclass(frozen=True, slots=True)
class _Ready:
    """A worker that Slurm has, before anything is planned."""

    extra: str
    room: Room
    booked: Collection[JobId]


class Refusals:
    """Of one decision, by the rooms as they are before anything is planned."""

    def __init__(
        self,
        rooms: Sequence[FleetRoom],
        supply: Supply,
        classes: Mapping[str, Group],
        let_in_everywhere: Collection[str],
        offerings: Sequence[Offering],
        settings: Settings,
    ) -> None:
        """`classes` have one share of a job each. Those to be let in everywhere are not among them."""
        self._settings = settings
        self._classes = classes
        self._let_in_everywhere = let_in_everywhere
        self._new_usd = {
            name: new[0] for name, group in classes.items() if (new := cheapest_new(group, offerings, settings))
        }
        self._ready: dict[WorkerName, _Ready] = {}
        for room in rooms:
            node = supply.nodes.get(room.place.worker)
            if room.ready and node is not None and (not node.extra or says_what_it_takes(node.extra)):
                booked = room.booking.jobs if room.booking else {}
                self._ready[node.name] = _Ready(node.extra, room.room.copy(), booked)
        self._let_in: set[tuple[WorkerName, str]] = set()

    def refused(self, room: FleetRoom, demand: Demand) -> bool:
        """Whether Slurm is to start no such job there."""
        name = job_class(demand.extra)
        return name is not None and self._refuses(room.place.worker, name)

    def let_in(self, room: FleetRoom, demand: Demand) -> None:
        """Take jobs that cannot have a new worker."""
        name = job_class(demand.extra)
        if name is not None:
            self._let_in.add((room.place.worker, name))

    def extras(self, booked: Iterable[Demand]) -> dict[WorkerName, str]:
        """The Extra of each worker that must have another one. `booked` are demands that have bookings."""
        owners = {job_id: job_class(demand.extra) for demand in booked for job_id in demand.job_ids}
        wanted: dict[WorkerName, str] = {}
        for worker, ready in self._ready.items():
            own = {owners.get(job_id) for job_id in ready.booked}
            closed = {
                name
                for name, group in self._classes.items()
                if self._refuses(worker, name) or (own and name not in own and not ready.room.takes(group))
            }
            extra = closed_to_others({*self._let_in_everywhere, *self._classes} - closed) if closed else OPEN
            if extra != ready.extra:
                wanted[worker] = extra
        return wanted

    def _refuses(self, worker: WorkerName, name: str) -> bool:
        group, ready = self._classes.get(name), self._ready.get(worker)
        if group is None or ready is None or name not in self._new_usd or (worker, name) in self._let_in:
            return False
        return ready.room.takes(group) and refuses(ready.room, group, self._new_usd[name], self._settings)


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
