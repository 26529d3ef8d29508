"""What a simulated cluster asks of a policy, and the simple ones that the packing is compared with."""

from collections.abc import Sequence
from typing import Protocol

from clusterra_contracts.shapes import Shape
from clusterra_scaler.planner.packing.items import Offering
from clusterra_scaler.planner.placement.shape_choice import FamilyShapes
from clusterra_scaler.planner.requests.demand import Need

from clusterra_planner_tools.simulate.catalogue import Catalogue, memory_mib
from clusterra_planner_tools.simulate.fleet import Worker
from clusterra_planner_tools.simulate.trace import Job


class Orders(Protocol):
    """How a policy acts."""

    def buy(self, offering: Offering) -> Worker:
        """Launch a worker."""

    def book(self, job: Job, workers: Sequence[Worker]) -> None:
        """Keep room for a job on coming workers, one for each of its nodes; it starts once all are ready."""


class Policy(Protocol):
    """Decides for a simulated cluster. `now` is in seconds of the trace's clock."""

    wait_seconds: float
    """How long after the first job that no ready worker takes the policy is asked what to buy."""

    def ranked(self, ready: list[Worker], now: float) -> list[Worker]:
        """The ready workers, given by launch, in the order of their weights: Slurm fills the first first."""

    def accepts(self, worker: Worker, job: Job, now: float) -> bool:
        """Whether a job may start on a ready worker that has room for it."""

    def order(
        self, waiting: Sequence[Job], booked: Sequence[Job], coming: Sequence[Worker], orders: Orders, now: float
    ) -> None:
        """Book coming or new workers for the waiting jobs; the booked ones have theirs."""

    def began(self, job: Job, now: float) -> None:
        """A job started."""

    def ended(self, job: Job, now: float) -> None:
        """A job ended."""

    def abandoned(self, job: Job) -> None:
        """A job lost a worker and waits again."""


class _Simple:
    """Buys at once, lets Slurm fill any worker, the oldest first, and learns nothing."""

    wait_seconds = 0.0

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def ranked(self, ready: list[Worker], now: float) -> list[Worker]:
        """See Policy."""
        return ready

    def accepts(self, worker: Worker, job: Job, now: float) -> bool:
        """See Policy."""
        return True

    def began(self, job: Job, now: float) -> None:
        """See Policy."""

    def ended(self, job: Job, now: float) -> None:
        """See Policy."""

    def abandoned(self, job: Job) -> None:
        """See Policy."""


class OnePerJob(_Simple):
    """A worker of the cheapest shape for each node of each job, and nothing else on it."""

    def ranked(self, ready: list[Worker], now: float) -> list[Worker]:
        """See Policy."""
        return []

    def order(
        self, waiting: Sequence[Job], booked: Sequence[Job], coming: Sequence[Worker], orders: Orders, now: float
    ) -> None:
        """See Policy."""
        for job in waiting:
            cheapest = self._catalogue.fitting(job)[0]
            orders.book(job, [orders.buy(cheapest) for _ in range(job.nodes)])


class FirstFit(_Simple):
    """The first worker with room, else one of the cheapest shape that holds the job."""

    def order(
        self, waiting: Sequence[Job], booked: Sequence[Job], coming: Sequence[Worker], orders: Orders, now: float
    ) -> None:
        """See Policy."""
        fleet = list(coming)
        for job in waiting:
            cheapest = self._catalogue.fitting(job)[0]
            fleet += _book_first(job, fleet, cheapest, orders)


class Family(_Simple):
    """The documented policy `family` chooses shapes; a coming worker is for jobs of its own family."""

    def __init__(self, catalogue: Catalogue) -> None:
        super().__init__(catalogue)
        self._policy = FamilyShapes(catalogue.shapes)
        self._families = {shape.name: shape.family for shape in catalogue.shapes.shapes}

    def order(
        self, waiting: Sequence[Job], booked: Sequence[Job], coming: Sequence[Worker], orders: Orders, now: float
    ) -> None:
        """See Policy. The biggest jobs first, as the planner does."""
        needs = [_need(job) for job in (*waiting, *booked)]
        chosen = self._policy.choose(needs, self._catalogue.shapes)
        fleet = list(coming)
        for job, shape in sorted(zip(waiting, chosen, strict=False), key=lambda each: _decreasing(each[0])):
            if isinstance(shape, Shape):
                family = [each for each in fleet if self._families[each.offering.shape] == shape.family]
                fleet += _book_first(job, family, self._catalogue[shape.name], orders)


def _book_first(job: Job, fleet: Sequence[Worker], offering: Offering, orders: Orders) -> list[Worker]:
    """Book the first workers with room and buy what is missing; what was bought."""
    found = [worker for worker in fleet if worker.fits(job)][: job.nodes]
    bought = [orders.buy(offering) for _ in range(job.nodes - len(found))]
    orders.book(job, found + bought)
    return bought


def _decreasing(job: Job) -> tuple[float, ...]:
    return (-job.nodes, -job.cpus, -job.memory_gib, not job.exclusive, job.id)


def _need(job: Job) -> Need:
    return Need(cpus=job.cpus, memory_mib=memory_mib(job.memory_gib), exclusive=job.exclusive)
