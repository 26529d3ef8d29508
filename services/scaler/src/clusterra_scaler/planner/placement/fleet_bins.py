"""The fleet as rooms for jobs: workers that are there, with what runs on them, and workers that come."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial

from clusterra_contracts.identity import JobId, ShapeName, WorkerName
from clusterra_contracts.queue import RunningJob
from clusterra_contracts.shapes import WorkerSpec

from clusterra_scaler.planner.estimates.remaining_time import OVER, Remaining, last
from clusterra_scaler.planner.estimates.run_history import MIB_PER_GIB, RunHistory, traits_of_running
from clusterra_scaler.planner.observed.booking import Booking
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.supply import Supply, SupplyBin, best_fit_key, empty_bin
from clusterra_scaler.planner.packing.bins import Bin
from clusterra_scaler.planner.packing.items import Group, Offering
from clusterra_scaler.planner.placement.plan import Place
from clusterra_scaler.planner.placement.workloads import Shares, offering_of

NEARLY_CERTAIN = 0.9
"""A chance to have ended by which a new worker is not worth its boot."""


@dataclass(eq=False)
class FleetBin:
    """A worker as a room, and what is planned for it."""

    id: str
    place: Place
    make: Callable[[], Bin]
    """Makes what it has free. Others may be given the same."""
    booking: Booking | None = None
    """That it comes with."""
    soon: Bin | None = None
    """What it is by the time at which a new worker would have booted, where anybody asked."""
    jobs: dict[JobId, int] = field(default_factory=dict)
    """Shares that this plan puts there, beside those that are booked."""

    @cached_property
    def like(self) -> Bin:
        """What it has free before anything is planned, not to be filled. Of thousands of workers that come nobody asks
        that, unless other jobs wait."""
        return self.make()

    @cached_property
    def bin(self) -> Bin:
        """What it has free."""
        fleet_bin = self.like.copy()
        fleet_bin.id = self.id
        return fleet_bin

    @property
    def ready(self) -> bool:
        """Whether Slurm has it."""
        return self.place.kind in ("node", "draining")

    def plan(self, job_id: JobId) -> None:
        """Plan one share of a job, for which there is room."""
        self.jobs[job_id] = self.jobs.get(job_id, 0) + 1


class FleetBins:
    """Makes the rooms."""

    def __init__(self, observation: Observation, supply: Supply, history: RunHistory) -> None:
        self._supply = supply
        self._history = history
        self._now = observation.now.timestamp()
        self._prices = {shape.name: shape.usd_per_hour for shape in observation.binding.catalogue.shapes}
        self._offerings: dict[ShapeName, Offering] = {}
        self._like: dict[object, Bin] = {}
        """Of workers that run nothing, by what they have free and what is booked there: thousands may be alike."""
        self._running: defaultdict[WorkerName, list[RunningJob]] = defaultdict(list)
        for job in observation.snapshot.running or ():
            for name in job.nodes:
                self._running[name].append(job)

    def of(self, bins: Iterable[SupplyBin], bookings: Iterable[Booking], shares: Shares) -> list[FleetBin]:
        """The bins in the order in which Slurm could have them, and workers that are ordered and booked.

        `shares` has those of the jobs that are booked for. A node that is only some user's takes no other jobs.
        """
        by_name = {each.worker: each for each in bookings if each.worker}
        fleet_bins: list[FleetBin] = []
        for number, each in enumerate(sorted(bins, key=best_fit_key)):
            if each.exclusive_uid is None:
                booking = by_name.get(each.name) if each.name else None
                place = Place(each.kind, each.name, each.shape)
                fleet_bins.append(FleetBin(f"{number}", place, partial(self._of_bin, each, booking, shares), booking))
        places = {shape: Place("ordered", "", shape) for shape in self._supply.specs}
        for number, booking in enumerate(bookings):
            if not booking.worker and booking.shape in places:
                make = partial(self._of_order, booking, shares)
                fleet_bins.append(FleetBin(f"booked-{number}", places[booking.shape], make, booking))
        return fleet_bins

    def soon(self, fleet_bin: FleetBin, seconds: float) -> Bin:
        """The room as it will be after so many seconds, without the jobs that nearly certainly have ended by then."""
        later = fleet_bin.bin.copy()
        for job in self._running.get(fleet_bin.place.worker, ()):
            if self._history.ends_within(job, self._now, seconds) >= NEARLY_CERTAIN:
                traits = traits_of_running(job)
                later.cpus += traits.cpus
                later.memory_gib += traits.memory_gib
        return later

    def is_empty_in(self, fleet_bin: FleetBin, seconds: float) -> bool:
        """Whether nearly certainly nothing of what runs there now does so after so many seconds."""
        jobs = self._running[fleet_bin.place.worker]
        return all(self._history.ends_within(job, self._now, seconds) >= NEARLY_CERTAIN for job in jobs)

    def _of_bin(self, each: SupplyBin, booking: Booking | None, shares: Shares) -> Bin:
        booked = _booked(booking, shares)
        running = self._running.get(each.name)
        if running:
            busy = last(self._history.of_running(job, self._now) for job in running)
            return _filled(self._room(each, busy), booked)
        key = (each.shape or foreign(each.name), each.cpus, each.memory_mib, each.empty, *map(id, booked))
        if key not in self._like:
            self._like[key] = _filled(self._room(each, OVER), booked)
        return self._like[key]

    def _of_order(self, booking: Booking, shares: Shares) -> Bin:
        spec = self._supply.specs[booking.shape]
        return self._of_bin(empty_bin("ordered", "", booking.shape, spec), booking, shares)

    def _room(self, each: SupplyBin, busy: Remaining) -> Bin:
        spec = self._supply.specs.get(each.shape)
        if spec is None:
            spec = WorkerSpec(cpus=each.cpus or 1, memory_mib=max(each.memory_mib, 1))
        return Bin(
            id="",
            offering=self._offering(each.shape or foreign(each.name), spec),
            cpus=each.cpus,
            memory_gib=each.memory_mib / MIB_PER_GIB,
            gpus=0,
            empty=each.empty,
            busy=busy,
        )

    def _offering(self, shape: ShapeName, spec: WorkerSpec) -> Offering:
        if shape not in self._offerings:
            self._offerings[shape] = offering_of(shape, spec, self._prices.get(shape, 0.0))
        return self._offerings[shape]


def _booked(booking: Booking | None, shares: Shares) -> list[Group]:
    """A share of each job that is booked for and still waits."""
    booked: list[Group] = []
    for job_id, count in booking.jobs.items() if booking else ():
        share = shares.of(job_id)
        if share is not None:
            booked += [share] * count
    return booked


def _filled(fleet_bin: Bin, booked: Iterable[Group]) -> Bin:
    for share in booked:
        fleet_bin.put(share)
    return fleet_bin


def foreign(node: str) -> str:
    """What stands for the shape of a node that is no worker of ours: such a name is no shape's."""
    return f"node:{node}"
