"""What a job will cost at most: its dominant share of the cheapest shape that has it, for its whole time limit."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from decimal import Decimal
from fractions import Fraction

from clusterra_contracts.queue import PendingJobs
from clusterra_contracts.shapes import Catalogue, Shape

_GPUS = re.compile(r"(node|task|job)/gpu(?::([^=,]+))?=(\d+)")

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?")


def projected_micro_usd(job: PendingJobs, tasks: int, catalogue: Catalogue) -> int | None:
    """Return the cost of all tasks of an array (1 for any other job), rounded up. None without a time limit or shape.

    A job that no single worker per node could run is priced as if its CPUs, memory and GPUs could be divided.
    """
    if job.time_limit_seconds is None:
        return None
    gpus, model = _gpus(job)
    shapes = [shape for shape in catalogue.shapes if _has(shape, gpus, model)]
    parts = {shape.name: _part(job, gpus, shape) for shape in shapes}
    fitting = [shape for shape in shapes if parts[shape.name] <= 1] or shapes
    hourly = min((_price(shape) * parts[shape.name] for shape in fitting), default=None)
    if hourly is None:
        return None
    exact = hourly * job.nodes * tasks * Fraction(job.time_limit_seconds) / 3600 * 1_000_000
    return -(-exact.numerator // exact.denominator)


def projected_together(jobs: Iterable[tuple[PendingJobs, int]], catalogue: Catalogue) -> int | None:
    """Return the cost of jobs with their numbers of tasks, such as a job's components. None where one has none."""
    costs = [projected_micro_usd(job, tasks, catalogue) for job, tasks in jobs]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


def _part(job: PendingJobs, gpus: int, shape: Shape) -> Fraction:
    """The largest of the parts of one worker that the job has on each of its nodes."""
    worker = shape.worker
    cpus = max(-(-job.cpus // job.nodes), job.cpus_per_node, job.cpus_per_task)
    memory = job.memory_per_node_mib or (job.memory_per_cpu_mib or 0) * cpus or (job.memory_per_gpu_mib or 0) * gpus
    if job.memory_per_node_mib == 0:
        memory = worker.memory_mib
    parts = [Fraction(cpus, worker.cpus), Fraction(memory, worker.memory_mib)]
    return max([*parts, Fraction(gpus, shape.gpu_count)] if shape.gpu_count else parts)


def _has(shape: Shape, gpus: int, model: str) -> bool:
    return not gpus or (shape.gpu_count > 0 and model in ("", shape.gpu_model))


def _gpus(job: PendingJobs) -> tuple[int, str]:
    """The GPUs on each node, and their model."""
    count, model = 0, ""
    per_task = -(-(job.tasks or 1) // job.nodes)
    for per, name, number in _GPUS.findall(job.gres):
        count += {"node": int(number), "task": int(number) * per_task, "job": -(-int(number) // job.nodes)}[per]
        model = name or model
    return count, model


def _price(shape: Shape) -> Fraction:
    return Fraction(Decimal(repr(shape.usd_per_hour)))


def task_count(tasks: str, apart: Iterable[int] = ()) -> int:
    """The number of tasks in Slurm's notation, such as `0-9:3,12%4`, less those `apart`; 1 where none can be read."""
    ranges = sorted(_ranges(tasks), key=lambda each: each.start)
    if not ranges:
        return 1
    starts = [each.start for each in ranges]
    before = ((task, bisect_right(starts, task)) for task in apart)
    return sum(map(len, ranges)) - sum(place > 0 and task in ranges[place - 1] for task, place in before)


def _ranges(tasks: str) -> Iterator[range]:
    for part in tasks.partition("%")[0].split(","):
        found = _RANGE.fullmatch(part)
        if found is not None:
            first = int(found[1])
            yield range(first, max(int(found[2] or first), first) + 1, max(int(found[3] or 1), 1))
