"""The fleet as bins: registered workers with what runs on them, and workers that come."""

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
from clusterra_scaler.planner.placement.job_groups import NodeShares, offering_of
from clusterra_scaler.planner.placement.plan import Place

NEARLY_CERTAIN = 0.9
"""The chance to have ended from which a job's capacity counts as free: a new worker is then not worth its boot."""


@dataclass(eq=False)
class FleetBin:
    """A worker, its bin in the packing, and what is planned for it."""

    id: str
    place: Place
    make_template: Callable[[], Bin]
    booking: Booking | None = None
    """The booking on the worker, if it has one."""
    after_boot: Bin | None = None
    """What the bin will be once a new worker could have booted, where that was computed."""
    jobs: dict[JobId, int] = field(default_factory=dict)
    """By job, the node shares that this plan puts there, besides booked ones."""

    @cached_property
    def template(self) -> Bin:
        """The bin before anything is planned. It may be shared with equal workers, so it must not be filled.

        It is made on demand: of thousands of coming workers few are ever filled.
        """
        return self.make_template()

    @cached_property
    def bin(self) -> Bin:
        """The bin that this plan fills."""
        own = self.template.copy()
        own.id = self.id
        return own

    @property
    def ready(self) -> bool:
        """Whether the worker has registered with Slurm."""
        return self.place.kind in ("node", "draining")

    def plan(self, job_id: JobId) -> None:
        """Plan one node's share of a job. The caller has made sure that it fits."""
        self.jobs[job_id] = self.jobs.get(job_id, 0) + 1


class FleetBins:
    """Makes the bins of one observation."""

    def __init__(self, observation: Observation, supply: Supply, history: RunHistory) -> None:
        self._supply = supply
        self._history = history
        self._now = observation.now.timestamp()
        self._prices = {shape.name: shape.usd_per_hour for shape in observation.binding.catalogue.shapes}
        self._offerings: dict[ShapeName, Offering] = {}
        self._templates: dict[object, Bin] = {}
        """Of workers that run nothing, by their free capacity and bookings: thousands may be equal."""
        self._busy: dict[WorkerName, Remaining] = {}
        """How long what runs there keeps a worker busy."""
        self._running: defaultdict[WorkerName, list[RunningJob]] = defaultdict(list)
        for job in observation.snapshot.running or ():
            for name in job.nodes:
                self._running[name].append(job)

    def of(self, bins: Iterable[SupplyBin], bookings: Iterable[Booking], shares: NodeShares) -> list[FleetBin]:
        """The supply in best-fit order, which is Slurm's, and then workers that are ordered and booked.

        `shares` must have the shares of booked jobs. A node that serves one user alone is left out.
        """
        by_name = {each.worker: each for each in bookings if each.worker}
        fleet_bins: list[FleetBin] = []
        for number, each in enumerate(sorted(bins, key=best_fit_key)):
            if each.exclusive_uid is None:
                booking = by_name.get(each.name) if each.name else None
                place = Place(each.kind, each.name, each.shape)
                fleet_bins.append(
                    FleetBin(f"{number}", place, partial(self._of_supply, each, booking, shares), booking)
                )
        places = {shape: Place("ordered", "", shape) for shape in self._supply.specs}
        for number, booking in enumerate(bookings):
            if not booking.worker and booking.shape in places:
                make = partial(self._of_order, booking, shares)
                fleet_bins.append(FleetBin(f"booked-{number}", places[booking.shape], make, booking))
        return fleet_bins

    def bin_after(self, fleet_bin: FleetBin, seconds: float) -> Bin:
        """The bin as it will be after `seconds`, without the jobs that have nearly certainly ended by then."""
        later = fleet_bin.bin.copy()
        for job in self._running.get(fleet_bin.place.worker, ()):
            if self._history.ends_within(job, self._now, seconds) >= NEARLY_CERTAIN:
                traits = traits_of_running(job)
                later.cpus += traits.cpus
                later.memory_gib += traits.memory_gib
        return later

    def is_empty_after(self, fleet_bin: FleetBin, seconds: float) -> bool:
        """Whether all jobs that run there now have nearly certainly ended after `seconds`."""
        jobs = self._running[fleet_bin.place.worker]
        return all(self._history.ends_within(job, self._now, seconds) >= NEARLY_CERTAIN for job in jobs)

    def _of_supply(self, each: SupplyBin, booking: Booking | None, shares: NodeShares) -> Bin:
        booked = _booked(booking, shares)
        running = self._running.get(each.name)
        if running:
            if each.name not in self._busy:
                self._busy[each.name] = last(self._history.of_running(job, self._now) for job in running)
            return _filled(self._bin(each, self._busy[each.name]), booked)
        key = (each.shape or foreign_shape(each.name), each.cpus, each.memory_mib, each.empty, *map(id, booked))
        if key not in self._templates:
            self._templates[key] = _filled(self._bin(each, OVER), booked)
        return self._templates[key]

    def _of_order(self, booking: Booking, shares: NodeShares) -> Bin:
        spec = self._supply.specs[booking.shape]
        return self._of_supply(empty_bin("ordered", "", booking.shape, spec), booking, shares)

    def _bin(self, each: SupplyBin, busy: Remaining) -> Bin:
        spec = self._supply.specs.get(each.shape)
        if spec is None:
            spec = WorkerSpec(cpus=each.cpus or 1, memory_mib=max(each.memory_mib, 1))
        return Bin(
            id="",
            offering=self._offering(each.shape or foreign_shape(each.name), spec),
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


def _booked(booking: Booking | None, shares: NodeShares) -> list[Group]:
    """The node shares of the booked jobs that still wait."""
    booked: list[Group] = []
    for job_id, count in booking.jobs.items() if booking else ():
        share = shares.of(job_id)
        if share is not None:
            booked += [share] * count
    return booked


def _filled(bin_: Bin, booked: Iterable[Group]) -> Bin:
    for share in booked:
        bin_.add(share)
    return bin_


def foreign_shape(node: str) -> str:
    """A name that stands for the shape of a node that is not our worker. No shape of a catalogue has such a name."""
    return f"node:{node}"
