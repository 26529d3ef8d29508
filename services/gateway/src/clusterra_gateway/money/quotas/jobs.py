"""The jobs that Slurm has: what each asks for, and which quotas and which reservation belong to it."""

import re
import uuid
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from datetime import timedelta
from operator import attrgetter
from typing import NamedTuple

from clusterra_contracts.identity import ClusterRef, JobId
from clusterra_contracts.job_price import JobPrices, total
from clusterra_contracts.queue import PendingJobs
from clusterra_contracts.rpc.slurm import Job, ListJobs, Viewer
from clusterra_contracts.rpc.slurm_jobs import Update
from clusterra_contracts.shapes import Catalogue

from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_gateway.money.quotas.records import Quota, Reservation, month_of

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?")


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


MAX_JOBS = 5000
PAGE_JOBS = 1000


class JobList(NamedTuple):
    """A list of jobs. `whole`: there are no others."""

    jobs: tuple[Job, ...]
    whole: bool


async def listed_jobs(slurm: SlurmRequests, ref: ClusterRef, viewer: Viewer, states: tuple[str, ...]) -> JobList:
    """The jobs that a viewer sees in some states, the oldest first, at most MAX_JOBS. Raises RpcFailed."""
    found: list[Job] = []
    cursor = None
    while len(found) < MAX_JOBS:
        page = await slurm.jobs(
            ref, ListJobs(viewer=viewer, states=states, sort="submitted", limit=PAGE_JOBS, cursor=cursor)
        )
        found += page.jobs
        if (cursor := page.cursor) is None:
            return JobList(tuple(found), whole=True)
    return JobList(tuple(found), whole=False)


def request_of(job: Job) -> PendingJobs:
    """What a job asks for, as far as its record shows it."""
    return PendingJobs(
        job_ids=(job.job_id.partition("_")[0],),
        count=1,
        cpus=max(job.cpus, 1),
        tasks=job.tasks,
        nodes=max(job.node_count, 1),
        memory_per_node_mib=job.memory_per_node_mib,
        memory_per_cpu_mib=job.memory_per_cpu_mib,
        features=job.constraints,
        gres=job.gres,
        partition=job.partition,
        uid=job.uid,
        reason=job.reason,
        first_submitted_at=job.submitted_at,
        time_limit_seconds=job.time_limit_seconds,
    )


_PRICED = attrgetter(
    *("cpus", "tasks", "node_count", "memory_per_node_mib", "memory_per_cpu_mib"),
    *("constraints", "gres", "partition", "time_limit_seconds"),
)
"""All of a job on which the price of `request_of` depends."""


class ListedPrices:
    """What the jobs of a list will cost. Those that ask for the same are priced once: a queue has few such requests."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._prices = JobPrices(catalogue)
        self._known: dict[tuple[object, ...], int | None] = {}

    def micro_usd(self, job: Job, tasks: int) -> int | None:
        """The cost of all tasks of an array (1 for any other job); None where nobody knows it, as without a limit."""
        key = (*_PRICED(job), tasks)
        if key not in self._known:
            self._known[key] = self._prices.micro_usd(request_of(job), tasks)
        return self._known[key]

    def projected(self, jobs: Iterable[Job]) -> int | None:
        """The cost of a job's components, or of an array and its tasks with records of their own.

        None where one of them has none. A task counts once: the array may still list one whose own record is there
        already.
        """
        known = tuple(jobs)
        apart = [int(task) for job in known if (task := job.job_id.partition("_")[2]).isdecimal()]
        return total(self.micro_usd(job, task_count(job.array_tasks, apart)) for job in known)


def changed_by(job: Job, update: Update) -> Job:
    """Return the job after a change, as far as its cost depends on it. More tasks have no fewer CPUs each."""
    changes, further = update.changes, update.further
    updates: dict[str, object] = {}
    if changes.time_limit is not None:
        updates["time_limit_seconds"] = changes.time_limit * 60.0
    if further.memory_per_node is not None or further.memory_per_cpu is not None:
        updates |= {"memory_per_node_mib": further.memory_per_node, "memory_per_cpu_mib": further.memory_per_cpu}
    if further.tasks is not None:
        updates["cpus"] = -(-job.cpus * further.tasks // max(job.tasks, 1))
    return job.model_copy(update=updates)


UNANSWERED_SECONDS = 900.0
"""How long the reservation of a submit without an answer waits for its job. Then it is released."""
_CLOCKS = timedelta(seconds=5)
"""Slurm tells whole seconds, by a clock of its own."""


def record_order(job: Job) -> tuple[int, bool]:
    """The sort key of a job's records: components by their offset; tasks of an array after the record of the array."""
    return job.het_offset, not job.array_tasks


def orphan_of(job: Job, orphans: Iterable[Reservation], projected: int) -> Reservation | None:
    """The reservation of an unanswered submit that this job probably belongs to: by the same user, shortly before.

    Of several, the one nearest to the projected cost.
    """
    kept = timedelta(seconds=UNANSWERED_SECONDS)
    fitting = [
        each for each in orphans if each.user == job.user and -_CLOCKS <= job.submitted_at - each.made_at <= kept
    ]
    return min(fitting, key=lambda each: abs(each.micro_usd - projected), default=None)


def of_account(quotas: Iterable[Quota], reservation: Reservation, job: Job) -> tuple[Quota, ...]:
    """The quota of a job's account, if it does not count the job yet: a submit need not name the account."""
    account = job.account or "?"
    return tuple(
        quota
        for quota in quotas
        if quota.scope.kind == "account" and quota.scope.name == account and quota.scope not in reservation.scopes
    )


def counts(quota: Quota, ref: ClusterRef, job: Job) -> bool:
    """Whether a quota counts a job."""
    match quota.scope.kind:
        case "user":
            return quota.scope.name == (job.user or "?")
        case "account":
            return quota.scope.name == (job.account or "?")
        case "tenant":
            return quota.scope.name == ref.tenant


def reservation_for(
    ref: ClusterRef, job_id: JobId, job: Job, counting: tuple[Quota, ...], micro_usd: int
) -> Reservation:
    """The reservation of a job that did not come through a submit."""
    return Reservation(
        # The same for every gateway, so that one of them reserves.
        id=uuid.uuid5(uuid.NAMESPACE_OID, f"{ref.key}#{job_id}#{int(job.submitted_at.timestamp())}").hex,
        tenant=ref.tenant,
        cluster=ref.cluster,
        month=month_of(job.submitted_at),
        scopes=tuple(quota.scope for quota in counting),
        micro_usd=micro_usd,
        user=job.user,
        made_at=job.submitted_at,
        job_id=job_id,
    )
