"""Bookings: which coming workers are bought for which jobs, so that no demand is counted twice.

    bought -> ordered, without a name -> booting, named by the edge -> registered -- its jobs started --> over

A booking holds capacity, nothing more. It is dropped with its jobs, and the worker is then free for any job. A job of
several nodes may have bookings on registered workers, too; they hold until its other workers have come.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from operator import attrgetter

from clusterra_contracts.identity import JobId, Moment, ShapeName, WorkerName

from clusterra_scaler.planner.observed.booking import Booking
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.supply import Supply
from clusterra_scaler.planner.requests.demand import Demand

STARTS_WITHIN = timedelta(seconds=30)
"""How long a booking holds after its worker has registered. Slurm starts a job there within seconds; a job that has not
started by then never will: another job has taken the capacity, or the worker is smaller than its shape."""
_WHOLE_SECONDS = timedelta(seconds=1)
"""The resolution of Slurm's timestamps."""


def valid_bookings(
    bookings: Sequence[Booking], demands: Sequence[Demand], supply: Supply, observation: Observation
) -> tuple[Booking, ...]:
    """The bookings that are still valid, the oldest first: their workers come and their jobs still wait.

    Workers that the edge reports are given to the oldest bookings of their shape. A job never has more booked shares
    than nodes, and a job of several nodes has all of its shares booked or none.
    """
    if not bookings:
        return ()
    by_job = {job_id: demand for demand in demands for job_id in demand.job_ids}
    before, after = None, list(bookings)
    # A dropped booking may free a worker for another booking, and may leave a job of several nodes incomplete.
    while after != before:
        before, after = after, _for_waiting_jobs(after, by_job)
        after = _not_overdue(_with_workers(after, supply), supply, observation)
    return tuple(after)


def _with_workers(bookings: Sequence[Booking], supply: Supply) -> list[Booking]:
    """The bookings whose worker exists or is ordered, with the worker's name where it has one."""
    unbooked = _unbooked_workers(bookings, supply)
    ordered = Counter(supply.ordered)
    kept: list[Booking] = []
    for each in sorted(bookings, key=attrgetter("bought_at")):
        found = each
        if each.worker and each.worker not in supply.workers:
            # It was removed before it was used, or the edge has not reported yet: while the order stands, one comes.
            found = replace(each, worker=None)
        if not found.worker:
            # A worker that is too old for this booking is too old for all later ones.
            name = next((name for name in unbooked[found.shape] if _may_be_bought_for(name, found, supply)), None)
            if name is not None:
                found = replace(found, worker=name)
            elif ordered[found.shape] > 0:
                ordered[found.shape] -= 1
            else:
                continue
        kept.append(found)
    return kept


def _unbooked_workers(bookings: Iterable[Booking], supply: Supply) -> defaultdict[ShapeName, Iterator[WorkerName]]:
    """By shape, the workers without a booking, the oldest first. Each can be taken from the iterator once."""
    taken = {each.worker for each in bookings}
    names: defaultdict[ShapeName, list[WorkerName]] = defaultdict(list)
    unbooked = [worker for worker in supply.workers.values() if worker.name not in taken]
    for worker in sorted(unbooked, key=attrgetter("started_at", "name")):
        names[worker.shape].append(worker.name)
    return defaultdict(lambda: iter(()), {shape: iter(of_shape) for shape, of_shape in names.items()})


def _may_be_bought_for(name: WorkerName, booking: Booking, supply: Supply) -> bool:
    """Whether a worker may be the one that was bought: it registered after the purchase, and nothing runs there."""
    node = supply.nodes.get(name)
    if node is None or node.not_responding:
        return True
    return node.idle and node.registered_at is not None and node.registered_at + _WHOLE_SECONDS >= booking.bought_at


def _not_overdue(bookings: Sequence[Booking], supply: Supply, observation: Observation) -> list[Booking]:
    """The bookings without those whose jobs should have started by now."""
    registered = [_registered(each, supply) for each in bookings]
    still_come = {
        job_id for each, when in zip(bookings, registered, strict=True) if when is None for job_id in each.jobs
    }
    usable = {each.name for each in supply.bins if each.kind != "draining"}
    kept = []
    for each, when in zip(bookings, registered, strict=True):
        if each.worker and each.worker not in usable:
            continue
        recent = when is None or observation.now - max(when, each.bought_at) <= STARTS_WITHIN
        if recent or any(job_id in still_come for job_id in each.jobs):
            kept.append(each)
    return kept


def _registered(booking: Booking, supply: Supply) -> Moment | None:
    """When the booked worker registered; None while it comes."""
    node = supply.nodes.get(booking.worker or "")
    return None if node is None or node.not_responding else node.registered_at or booking.bought_at


def _for_waiting_jobs(bookings: Sequence[Booking], by_job: Mapping[JobId, Demand]) -> list[Booking]:
    """The bookings with no more shares than jobs wait; the latest bookings are dropped first.

    Which tasks of an array, or which of equal jobs, have started elsewhere makes no difference.
    """
    booked = _booked_shares(bookings, by_job)
    allowed: dict[JobId, int] = {}
    for first, shares in booked.items():
        demand, nodes = by_job[first], by_job[first].nodes
        if shares % nodes == 0:
            allowed[first] = nodes * min(shares // nodes, demand.count)
    kept = []
    for each in bookings:
        jobs = _allowed(each.jobs, by_job, allowed)
        if jobs:
            kept.append(each if jobs == each.jobs else replace(each, jobs=jobs))
    return kept


def _allowed(jobs: Mapping[JobId, int], by_job: Mapping[JobId, Demand], allowed: dict[JobId, int]) -> dict[JobId, int]:
    """The shares of a booking that are still allowed. Counts down `allowed`, which is by the first id of a demand."""
    kept: dict[JobId, int] = {}
    for job_id, count in jobs.items():
        first = by_job[job_id].job_ids[0] if job_id in by_job else ""
        left = min(count, allowed.get(first, 0))
        if left:
            kept[job_id] = left
            allowed[first] -= left
    return kept


def _booked_shares(bookings: Sequence[Booking], by_job: Mapping[JobId, Demand]) -> Counter[JobId]:
    """The number of booked node shares of each demand, by its first id."""
    booked: Counter[JobId] = Counter()
    for each in bookings:
        for job_id, count in each.jobs.items():
            demand = by_job.get(job_id)
            if demand is not None:
                booked[demand.job_ids[0]] += count
    return booked
