"""The capacity of a fleet: which of its bins the jobs of a demand may use, while bins fill up."""

from collections.abc import Callable, Iterator, Sequence

from clusterra_scaler.planner.packing.bins import Bin, with_capacity_for_any
from clusterra_scaler.planner.packing.items import Group
from clusterra_scaler.planner.placement.bin_search import BinSearch
from clusterra_scaler.planner.placement.fleet_bins import FleetBin
from clusterra_scaler.planner.placement.head_reservation import HeadReservation
from clusterra_scaler.planner.placement.node_extra import ClosedNodes
from clusterra_scaler.planner.requests.demand import Demand


class FleetCapacity:
    """The bins of a fleet, without those that are closed to a demand or drained for the head-job reservation."""

    def __init__(
        self,
        fleet_bins: Sequence[FleetBin],
        closed_nodes: ClosedNodes,
        bin_after_boot: Callable[[FleetBin], Bin],
        reservation: HeadReservation | None = None,
    ) -> None:
        """`bin_after_boot` makes of a bin what it will be once a new worker could have booted."""
        self.fleet_bins = fleet_bins
        self.reservation = reservation
        self._closed_nodes = closed_nodes
        self._bin_after_boot = bin_after_boot
        self._ready = [fleet_bin for fleet_bin in fleet_bins if fleet_bin.ready and fleet_bin.bin.cpus >= 1]
        self._ready_by_closed: dict[int, BinSearch] = {}
        """By the identity of a set of closed workers, the ready bins besides them."""
        self._freeing: list[FleetBin] | None = None
        """The registered workers as they will be by then; None until they are asked for."""
        self._freeing_by_closed: dict[int, BinSearch] = {}
        self._any: BinSearch | None = None

    def is_head(self, demand: Demand) -> bool:
        """Whether the head job is one of the demand's jobs."""
        return self.reservation is not None and self.reservation.job.job_id in demand.job_ids

    def ready_for(self, demand: Demand, group: Group) -> Iterator[FleetBin]:
        """The bins in which Slurm can start a job now, in Slurm's order, each judged when it is reached.

        Closed nodes must not be opened between two searches.
        """
        closed = self._closed_nodes.closed_to(demand)
        search = self._ready_by_closed.get(id(closed))
        if search is None:
            search = BinSearch([each for each in self._ready if each.place.worker not in closed])
            self._ready_by_closed[id(closed)] = search
        return (fleet_bin for fleet_bin in search.fitting(group) if self._may_use(fleet_bin, demand))

    def take_freeing(self, demand: Demand, group: Group, count: int) -> list[FleetBin]:
        """Take capacity that nearly certainly frees up before a new worker could boot.

        Returns a bin for each job of one node that gets some, `count` jobs at most.
        """
        if not count:
            return []
        if self._freeing is None:
            drained = self.reservation.workers if self.reservation else ()
            self._freeing = [
                fleet_bin
                for fleet_bin in self.fleet_bins
                if fleet_bin.place.kind == "node" and fleet_bin.place.worker not in drained
            ]
            for fleet_bin in self._freeing:
                fleet_bin.after_boot = self._bin_after_boot(fleet_bin)
        closed = self._closed_nodes.closed_to(demand)
        search = self._freeing_by_closed.get(id(closed))
        if search is None:
            search = BinSearch([each for each in self._freeing if each.place.worker not in closed], _after_boot)
            self._freeing_by_closed[id(closed)] = search
        taken: list[FleetBin] = []
        for fleet_bin in search.fitting(group):
            after_boot = _after_boot(fleet_bin)
            while len(taken) < count and after_boot.fits(group):
                after_boot.add(group)
                taken.append(fleet_bin)
            if len(taken) == count:
                break
        return taken

    def coming_for(self, groups: Sequence[Group]) -> list[FleetBin]:
        """The bins of coming workers that are not full for every group."""
        coming = [fleet_bin for fleet_bin in self.fleet_bins if not fleet_bin.ready]
        # Many of them share a template.
        templates = set(map(id, with_capacity_for_any(groups, [fleet_bin.template for fleet_bin in coming])))
        return [fleet_bin for fleet_bin in coming if id(fleet_bin.template) in templates]

    def any_for(self, demand: Demand, group: Group) -> Iterator[FleetBin]:
        """The bins in which a job fits, also where it costs more than on a new worker and on closed nodes."""
        if self._any is None:
            self._any = BinSearch([each for each in self.fleet_bins if each.ready or each.place.shape])
        return (fleet_bin for fleet_bin in self._any.fitting(group) if self._may_use(fleet_bin, demand))

    def put(self, fleet_bin: FleetBin, group: Group) -> None:
        """Fill one node's share of a job into a bin."""
        fleet_bin.bin.add(group)
        if fleet_bin.after_boot is not None:
            fleet_bin.after_boot.add(group)

    def admit(self, fleet_bin: FleetBin, demand: Demand) -> None:
        """Open a worker to the demand's jobs."""
        self._closed_nodes.admit(fleet_bin, demand)

    def _may_use(self, fleet_bin: FleetBin, demand: Demand) -> bool:
        """Workers that are drained for the reservation take the head job alone."""
        return (
            self.reservation is None or fleet_bin.place.worker not in self.reservation.workers or self.is_head(demand)
        )


def _after_boot(fleet_bin: FleetBin) -> Bin:
    assert fleet_bin.after_boot is not None  # noqa: S101 - `take_freeing` has set it
    return fleet_bin.after_boot
