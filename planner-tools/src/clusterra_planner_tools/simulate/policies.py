"""The interface of simulated policies, and the simple policies that the packing is compared with."""

from collections.abc import Sequence
from typing import Protocol

from clusterra_contracts.demand import Need
from clusterra_contracts.shapes import Shape
from clusterra_scaler.planner.packing.items import Offering
from clusterra_scaler.planner.placement.shape_choice import FamilyShapes

from clusterra_planner_tools.simulate.catalogue import Catalogue, memory_mib
from clusterra_planner_tools.simulate.fleet import Worker
from clusterra_planner_tools.simulate.trace import Job


class Orders(Protocol):
    """The actions of a policy."""

    def buy(self, offering: Offering) -> Worker:
        """Launch a worker."""

    def book(self, job: Job, workers: Sequence[Worker]) -> None:
        """Reserve capacity for a job on coming workers, one for each node. It starts once all of them are ready."""


class Policy(Protocol):
    """Decides for a simulated cluster. `now` is in seconds of the trace's clock."""

    batch_seconds: float
    """The batching window: `order` is called this long after the first job that no ready worker takes."""

    def ranked(self, ready: list[Worker], now: float) -> list[Worker]:
        """The ready workers in the order in which Slurm fills them; they are passed in the order of their launch."""

    def accepts(self, worker: Worker, job: Job, now: float) -> bool:
        """Whether a job may start on a ready worker where it fits."""

    def order(
        self, waiting: Sequence[Job], booked: Sequence[Job], coming: Sequence[Worker], orders: Orders, now: float
    ) -> None:
        """Book coming or new workers for the waiting jobs. The booked jobs have workers."""

    def began(self, job: Job, now: float) -> None:
        """A job started."""

    def ended(self, job: Job, now: float) -> None:
        """A job ended."""

    def abandoned(self, job: Job) -> None:
        """A job lost a worker and was requeued."""


class _SimplePolicy:
    """Buys at once, lets Slurm fill any worker, the oldest first, and learns nothing."""

    batch_seconds = 0.0

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


class OnePerJob(_SimplePolicy):
    """Buys a worker of the cheapest shape for each node of each job, and starts nothing else there."""

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


class FirstFit(_SimplePolicy):
    """Books the first coming worker where the job fits, else a new one of the cheapest shape that holds it."""

    def order(
        self, waiting: Sequence[Job], booked: Sequence[Job], coming: Sequence[Worker], orders: Orders, now: float
    ) -> None:
        """See Policy."""
        fleet = list(coming)
        for job in waiting:
            cheapest = self._catalogue.fitting(job)[0]
            fleet += _book_first(job, fleet, cheapest, orders)


class FamilyPolicy(_SimplePolicy):
    """Chooses shapes by the documented policy `family`. A coming worker takes jobs of its own family alone."""

    def __init__(self, catalogue: Catalogue) -> None:
        super().__init__(catalogue)
        self._family_shapes = FamilyShapes(catalogue.shapes)
        self._families = {shape.name: shape.family for shape in catalogue.shapes.shapes}

    def order(
        self, waiting: Sequence[Job], booked: Sequence[Job], coming: Sequence[Worker], orders: Orders, now: float
    ) -> None:
        """See Policy. The biggest jobs come first, as in the planner."""
        needs = [_need(job) for job in (*waiting, *booked)]
        chosen = self._family_shapes.choose(needs, self._catalogue.shapes)
        fleet = list(coming)
        for job, shape in sorted(zip(waiting, chosen, strict=False), key=lambda each: _biggest_first(each[0])):
            if isinstance(shape, Shape):
                family = [each for each in fleet if self._families[each.offering.shape] == shape.family]
                fleet += _book_first(job, family, self._catalogue[shape.name], orders)


def _book_first(job: Job, fleet: Sequence[Worker], offering: Offering, orders: Orders) -> list[Worker]:
    """Book the first workers where the job fits, buy the missing ones, and return those that were bought."""
    found = [worker for worker in fleet if worker.fits(job)][: job.nodes]
    bought = [orders.buy(offering) for _ in range(job.nodes - len(found))]
    orders.book(job, found + bought)
    return bought


def _biggest_first(job: Job) -> tuple[float, ...]:
    return (-job.nodes, -job.cpus, -job.memory_gib, not job.exclusive, job.id)


def _need(job: Job) -> Need:
    return Need(cpus=job.cpus, memory_mib=memory_mib(job.memory_gib), exclusive=job.exclusive)
