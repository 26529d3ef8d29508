"""Which coming workers are bought for which jobs, so that no demand is counted twice.

    bought -> ordered, without a name -> booting, named by the edge -> registered -- its jobs started --> over

A booking holds room, nothing more: it is dropped with its jobs, and the worker then stands for whoever can use it. A
job of several nodes may have bookings on workers that are there, which hold for as long as its others come.
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
"""Slurm starts a job on a worker that has registered within seconds. One that does not start then never will there:
something else has taken the room, or the worker is not what its shape says."""
_WHOLE_SECONDS = timedelta(seconds=1)
"""Slurm tells times in them."""


def standing(
    bookings: Sequence[Booking], demands: Sequence[Demand], supply: Supply, observation: Observation
) -> tuple[Booking, ...]:
    """What is left of the bookings, the oldest first: those whose workers come and whose jobs still wait.

    Workers that the edge tells of are given to the oldest bookings of their shape. There are never more shares of a job
    than nodes that it needs, and those of a job of several nodes are all there or none.
    """
    if not bookings:
        return ()
    of_job = {job_id: demand for demand in demands for job_id in demand.job_ids}
    before, after = None, list(bookings)
    # Each that goes may free a name for another one, and may break up a job of several nodes.
    while after != before:
        before, after = after, _of_waiting(after, of_job)
        after = _coming(_named(after, supply), supply, observation)
    return tuple(after)


def _named(bookings: Sequence[Booking], supply: Supply) -> list[Booking]:
    """Those whose worker is there or can be expected, with its name as soon as it has one."""
    fresh = _fresh(bookings, supply)
    ordered = Counter(supply.ordered)
    kept: list[Booking] = []
    for each in sorted(bookings, key=attrgetter("bought_at")):
        found = each
        if each.worker and each.worker not in supply.workers:
            # It went before it was of use, or the edge is not known yet: as long as the order stands, one comes.
            found = replace(each, worker=None)
        if not found.worker:
            # A worker that is too old for this booking is too old for all that were bought later.
            name = next((name for name in fresh[found.shape] if _is_new(name, found, supply)), None)
            if name is not None:
                found = replace(found, worker=name)
            elif ordered[found.shape] > 0:
                ordered[found.shape] -= 1
            else:
                continue
        kept.append(found)
    return kept


def _fresh(bookings: Iterable[Booking], supply: Supply) -> defaultdict[ShapeName, Iterator[WorkerName]]:
    """The workers of each shape that no booking names, the oldest first. Each is looked at once."""
    taken = {each.worker for each in bookings}
    names: defaultdict[ShapeName, list[WorkerName]] = defaultdict(list)
    fresh = [worker for worker in supply.workers.values() if worker.name not in taken]
    for worker in sorted(fresh, key=attrgetter("started_at", "name")):
        names[worker.shape].append(worker.name)
    return defaultdict(lambda: iter(()), {shape: iter(of_shape) for shape, of_shape in names.items()})


def _is_new(name: WorkerName, booking: Booking, supply: Supply) -> bool:
    """Whether a worker may be the one that was bought: it has not registered before that, and nothing runs there."""
    node = supply.nodes.get(name)
    if node is None or node.gone:
        return True
    return node.idle and node.registered_at is not None and node.registered_at + _WHOLE_SECONDS >= booking.bought_at


def _coming(bookings: Sequence[Booking], supply: Supply, observation: Observation) -> list[Booking]:
    """Without those whose jobs should have started by now."""
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
    """When its worker did; None while it comes."""
    node = supply.nodes.get(booking.worker or "")
    return None if node is None or node.gone else node.registered_at or booking.bought_at


def _of_waiting(bookings: Sequence[Booking], of_job: Mapping[JobId, Demand]) -> list[Booking]:
    """With as many shares as there are jobs, those bought last given up first.

    Which tasks of an array, or which of some equal jobs, have started elsewhere makes no difference.
    """
    booked = _booked_shares(bookings, of_job)
    allowed: dict[JobId, int] = {}
    for first, shares in booked.items():
        demand, nodes = of_job[first], of_job[first].nodes
        if shares % nodes == 0:
            allowed[first] = nodes * min(shares // nodes, demand.count)
    kept = []
    for each in bookings:
        jobs = _allowed(each.jobs, of_job, allowed)
        if jobs:
            kept.append(each if jobs == each.jobs else replace(each, jobs=jobs))
    return kept


def _allowed(jobs: Mapping[JobId, int], of_job: Mapping[JobId, Demand], allowed: dict[JobId, int]) -> dict[JobId, int]:
    """Counts down what is allowed of each demand, by its first id."""
    kept: dict[JobId, int] = {}
    for job_id, count in jobs.items():
        first = of_job[job_id].job_ids[0] if job_id in of_job else ""
        left = min(count, allowed.get(first, 0))
        if left:
            kept[job_id] = left
            allowed[first] -= left
    return kept


def _booked_shares(bookings: Sequence[Booking], of_job: Mapping[JobId, Demand]) -> Counter[JobId]:
    """For how many nodes' shares of each demand, by its first id, there is room."""
    booked: Counter[JobId] = Counter()
    for each in bookings:
        for job_id, count in each.jobs.items():
            demand = of_job.get(job_id)
            if demand is not None:
                booked[demand.job_ids[0]] += count
    return booked
