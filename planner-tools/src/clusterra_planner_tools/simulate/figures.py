"""Computes cost, bound, waits and violations from a result, the trace and the catalogue alone."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import fsum

from clusterra_contracts.identity import Wire

from clusterra_planner_tools.simulate.bound import corners, usd_per_second
from clusterra_planner_tools.simulate.catalogue import Catalogue
from clusterra_planner_tools.simulate.result import JobRun, Result, WorkerRun
from clusterra_planner_tools.simulate.trace import Job

_SECONDS = 1e-6
_GIB = 1e-6


class Violation(Wire):
    """Something that no real cluster could do, or a job that should have run and did not."""

    what: str
    where: str


class Figures(Wire):
    """The cost of a schedule, and the waits of its jobs, in USD and seconds."""

    ratio: float
    """Cost divided by bound."""
    cost_usd: float
    bound_usd: float
    wait_mean: float
    wait_p50: float
    wait_p99: float
    wait_max: float
    worker_starts: int
    starts_per_job: float
    jobs: int
    violations: tuple[Violation, ...]


def figures(result: Result, trace: Iterable[Job], catalogue: Catalogue) -> Figures:
    """The figures of a result. Jobs that no shape holds need not have run. Raises ValueError if no job ran."""
    if not result.jobs:
        raise ValueError("no job ran, so there are no figures")
    cost = sum((each.release - each.launch) * catalogue[each.shape].usd_per_second for each in result.workers)
    bound = bound_usd(result.jobs, catalogue)
    waits = sorted(run.start - run.submit for run in result.jobs)
    return Figures(
        ratio=cost / bound if bound else 0.0,
        cost_usd=cost,
        bound_usd=bound,
        wait_mean=fsum(waits) / len(waits),
        wait_p50=percentile(waits, 50),
        wait_p99=percentile(waits, 99),
        wait_max=waits[-1],
        worker_starts=len(result.workers),
        starts_per_job=len(result.workers) / len(result.jobs),
        jobs=len(result.jobs),
        violations=tuple(violations(result, trace, catalogue)),
    )


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The nearest-rank percentile of ascending values."""
    return ordered[max(1, -(-len(ordered) * percent // 100)) - 1]


def bound_usd(runs: Iterable[JobRun], catalogue: Catalogue) -> float:
    """The fluid bound on the cost of the run intervals, see `bound`."""
    at = corners(catalogue.offerings)
    return sum(
        (until - since) * usd_per_second(cpus, memory_gib, at) for since, until, cpus, memory_gib in demand(runs)
    )


def demand(runs: Iterable[JobRun]) -> Iterator[tuple[float, float, float, float]]:
    """The intervals of constant demand in order of time: begin, end, CPUs, GiB."""
    changes: defaultdict[float, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for run in runs:
        cpus, memory_gib = sum(part.cpus for part in run.parts), sum(part.memory_gib for part in run.parts)
        for moment, sign in ((run.start, 1), (run.end, -1)):
            changes[moment][0] += sign * cpus
            changes[moment][1] += sign * memory_gib
    used_cpus = used_gib = since = 0.0
    for moment in sorted(changes):
        if used_cpus:
            yield since, moment, used_cpus, max(used_gib, 0.0)
        used_cpus, used_gib, since = used_cpus + changes[moment][0], used_gib + changes[moment][1], moment


def violations(result: Result, trace: Iterable[Job], catalogue: Catalogue) -> Iterator[Violation]:
    """All violations in a result."""
    jobs = {job.id: job for job in trace}
    workers = {worker.id: worker for worker in result.workers}
    for worker_id, count in Counter(worker.id for worker in result.workers).items():
        if count > 1:
            yield Violation(what="a worker is listed twice", where=f"worker {worker_id}")
    for job_id, count in Counter(run.id for run in result.jobs).items():
        if count > 1:
            yield Violation(what="a job ran twice", where=f"job {job_id}")
    for run in result.jobs:
        for what in _of_run(run, jobs.get(run.id), workers, catalogue):
            yield Violation(what=what, where=f"job {run.id}")
    for worker in result.workers:
        if worker.release < worker.launch:
            yield Violation(what="a worker is released before its launch", where=f"worker {worker.id}")
    for worker_id, runs in _by_worker(result.jobs).items():
        if worker_id in workers:
            for what in _of_worker(worker_id, runs, workers[worker_id], jobs, catalogue):
                yield Violation(what=what, where=f"worker {worker_id}")
    ran = {run.id for run in result.jobs}
    for job in jobs.values():
        if job.id not in ran and catalogue.fitting(job):
            yield Violation(what="a job that a shape holds did not run", where=f"job {job.id}")


def _of_run(run: JobRun, job: Job | None, workers: Mapping[int, WorkerRun], catalogue: Catalogue) -> Iterator[str]:
    if job is None:
        yield "a job is not in the trace"
        return
    if run.submit != job.submit or abs(run.end - run.start - job.run_seconds) > _SECONDS:
        yield "a job's submit or run time differs from the trace's"
    if run.start < job.submit - _SECONDS:
        yield "a job starts before its submit"
    used = [part.worker for part in run.parts]
    if len(used) != job.nodes or len(set(used)) != len(used):
        yield "a job does not run on one worker for each of its nodes"
    for part in run.parts:
        if part.cpus != job.cpus or abs(part.memory_gib - job.memory_gib) > _GIB:
            yield "a job does not have the CPUs and memory that it requests"
        worker = workers.get(part.worker)
        if worker is None:
            yield "a job runs on a worker that was never bought"
        elif (
            run.start < worker.launch + catalogue[worker.shape].boot_seconds - _SECONDS
            or run.end > worker.release + _SECONDS
        ):
            yield "a job runs on a worker that is not up"


def _by_worker(runs: Iterable[JobRun]) -> dict[int, list[JobRun]]:
    by_worker: defaultdict[int, list[JobRun]] = defaultdict(list)
    for run in runs:
        for part in run.parts:
            by_worker[part.worker].append(run)
    return by_worker


def _of_worker(
    worker_id: int, runs: Iterable[JobRun], worker: WorkerRun, jobs: Mapping[int, Job], catalogue: Catalogue
) -> Iterator[str]:
    offering = catalogue[worker.shape]
    changes: list[tuple[float, int, int, float, int]] = []
    for run in runs:
        if run.end <= run.start:
            continue
        exclusive = int(run.id in jobs and jobs[run.id].exclusive)
        for part in run.parts:
            if part.worker == worker_id:
                changes.append((run.start, 1, part.cpus, part.memory_gib, exclusive))
                changes.append((run.end, -1, -part.cpus, -part.memory_gib, -exclusive))
    cpus = memory_gib = 0.0
    count = alone = 0
    for _, more, of_cpus, of_gib, exclusive in sorted(changes):
        cpus, memory_gib, count, alone = cpus + of_cpus, memory_gib + of_gib, count + more, alone + exclusive
        if cpus > offering.cpus or memory_gib > offering.memory_gib + _GIB:
            yield "a worker is overcommitted"
            return
        if alone and count > 1:
            yield "an exclusive job shares its worker"
            return
