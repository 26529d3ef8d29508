"""The price of a job before it runs: its dominant share of its workers, for its time limit.

Quotas and estimates price the same demand (`parts_of`) by the same share. They differ in the shape: an estimate has
that of the workers that the planner chooses, a quota the cheapest one that a new worker could have (`JobPrices`).
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from clusterra_contracts.constraints import parse
from clusterra_contracts.demand import Need, parts_of
from clusterra_contracts.gres import gpu_count
from clusterra_contracts.identity import ShapeName
from clusterra_contracts.queue import PendingJobs
from clusterra_contracts.shape_fit import GpuShapes, holds, new_workers
from clusterra_contracts.shapes import Catalogue, Shape


def requests_memory(job: PendingJobs) -> bool:
    """Whether a job itself says how much memory it needs. What Slurm gives to any other one is not known here."""
    return not (job.memory_per_node_mib is job.memory_per_cpu_mib is job.memory_per_gpu_mib is None)


def usd_per_hour(need: Need, shape: Shape, *, with_memory: bool) -> Fraction:
    """The price of a need on one worker: the largest of its parts of the worker's CPUs, memory and GPUs.

    Jobs that share their workers with no other pay for all of them. The memory of a job that requests none is the
    planner's assumption, so it must not count: `with_memory` is `requests_memory` of the job.
    """
    worker = shape.worker
    parts = [Fraction(need.cpus, worker.cpus)]
    if with_memory:
        parts.append(Fraction(need.memory_mib, worker.memory_mib))
    if shape.gpu_count:
        parts.append(Fraction(gpu_count(need.gres), shape.gpu_count))
    if need.exclusive:
        parts.append(Fraction(1))
    return Fraction(Decimal(repr(shape.usd_per_hour))) * max(parts)


def total(costs: Iterable[int | None]) -> int | None:
    """The sum of costs; None where one of them is unknown."""
    known = tuple(costs)
    return None if None in known else sum(cost for cost in known if cost is not None)


class Expected(NamedTuple):
    """What jobs are expected to cost, in micro-USD, rounded up."""

    per_hour: int
    """While all that may run at once runs."""
    total: int | None
    """For all tasks and the whole time limit; None without one."""
    shapes: tuple[ShapeName, ...]
    """The shapes of their workers."""


class JobPrices:
    """What jobs will cost at the prices of a catalogue, each on the cheapest shape that could run it."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._shapes = catalogue.shapes
        self._gpu_shapes = GpuShapes(catalogue)
        self._fits = new_workers(catalogue)
        self._cheapest: dict[tuple[Need, bool], tuple[Fraction, ShapeName] | None] = {}

    def micro_usd(self, job: PendingJobs, tasks: int) -> int | None:
        """Return the cost of all tasks of an array (1 for any other job), rounded up.

        None without a time limit, or if no shape has its GPUs. A job that no single worker per node could run is priced
        as if its CPUs, memory and GPUs could be divided. A constraint that no shape meets, such as one for nodes that
        are not Clusterra's, does not count.
        """
        if job.time_limit_seconds is None or (found := self._hourly(job)) is None:
            return None
        return _micro_usd(found[0] * tasks * Fraction(job.time_limit_seconds) / 3600)

    def expected(self, jobs: Iterable[tuple[PendingJobs, int]]) -> Expected | None:
        """Return what jobs with their numbers of tasks cost together. None if no shape has the GPUs of one."""
        known = tuple(jobs)
        hourly = [self._hourly(job) for job, _ in known]
        found = [each for each in hourly if each is not None]
        if len(found) < len(known):
            return None
        at_once = (price * max(job.count, 1) for (price, _), (job, _) in zip(found, known, strict=True))
        shapes = dict.fromkeys(shape for _, each in found for shape in each)
        return Expected(_micro_usd(sum(at_once, Fraction(0))), self.micro_usd_together(known), tuple(shapes))

    def micro_usd_together(self, jobs: Iterable[tuple[PendingJobs, int]]) -> int | None:
        """Return the cost of jobs with their numbers of tasks, such as a job's components. None where one has none."""
        return total(self.micro_usd(job, tasks) for job, tasks in jobs)

    def _hourly(self, job: PendingJobs) -> tuple[Fraction, tuple[ShapeName, ...]] | None:
        """The price per hour of a job or one task in US dollars, and the shapes; None if no shape has its GPUs."""
        parts = parts_of(job, self._fits)
        if any(part.need.unreadable for part in parts):
            parts = parts_of(job.model_copy(update={"features": ""}), self._fits)
        with_memory, hourly, shapes = requests_memory(job), Fraction(0), list[ShapeName]()
        for part in parts:
            each = self._cheapest_usd_per_hour(part.need, with_memory)
            if each is None:
                return None
            hourly += each[0] * part.nodes
            shapes.append(each[1])
        return hourly, tuple(shapes)

    def _cheapest_usd_per_hour(self, need: Need, with_memory: bool) -> tuple[Fraction, ShapeName] | None:
        key = need, with_memory
        if key not in self._cheapest:
            prices = (
                (usd_per_hour(need, shape, with_memory=with_memory), shape.name) for shape in self._candidates(need)
            )
            self._cheapest[key] = min(prices, default=None)
        return self._cheapest[key]

    def _candidates(self, need: Need) -> Sequence[Shape]:
        """The shapes that could run it; if there are none, those with its features and GPUs, or at least its GPUs."""
        if need.unreadable:
            return ()
        allows, excluded = parse(need.constraint), self._gpu_shapes.excluded_shapes(need)
        with_gpus = [shape for shape in self._shapes if shape.name not in excluded and _has_gpus_of(shape, need)]
        allowed = [shape for shape in with_gpus if allows(shape.worker.features)] or with_gpus
        return [shape for shape in allowed if holds(shape, need)] or allowed


def _micro_usd(usd: Fraction) -> int:
    """US dollars in micro-USD, rounded up."""
    exact = usd * 1_000_000
    return -(-exact.numerator // exact.denominator)


def _has_gpus_of(shape: Shape, need: Need) -> bool:
    """Whether a shape has the model of GPUs that a need names, whatever the number."""
    models = {model for name in need.gres for kind, _, model in (name.name.partition(":"),) if kind == "gpu"}
    return not models or (shape.gpu_count > 0 and models <= {"", shape.gpu_model})
