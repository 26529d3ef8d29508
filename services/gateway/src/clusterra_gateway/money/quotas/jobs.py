"""The jobs that Slurm has: what each asks for, and which quotas and which reservation belong to it."""

import re
import uuid
from bisect import bisect_right
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import timedelta
from operator import attrgetter
from typing import Protocol

from clusterra_contracts.identity import ClusterRef, JobId, Moment
from clusterra_contracts.job_price import JobPrices, total
from clusterra_contracts.queue import PendingJobs
from clusterra_contracts.rpc.slurm import Job, ListJobs, Viewer
from clusterra_contracts.rpc.slurm_jobs import MAX_SELECTION_CHARACTERS, Update
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


PAGE_JOBS = 1000


async def job_pages(
    slurm: SlurmRequests, ref: ClusterRef, viewer: Viewer, states: tuple[str, ...]
) -> AsyncIterator[tuple[Job, ...]]:
    """All jobs that a viewer sees in some states, the oldest first, a page at a time. Raises RpcFailed."""
    cursor = None
    while True:
        page = await slurm.jobs(
            ref, ListJobs(viewer=viewer, states=states, sort="submitted", limit=PAGE_JOBS, cursor=cursor)
        )
        yield page.jobs
        if (cursor := page.cursor) is None:
            return


type Asked = tuple[object, ...]
"""All of a job on which its price depends."""
_PRICED = attrgetter(
    *("cpus", "cpus_per_task", "cpus_per_node", "tasks", "node_count", "min_nodes", "max_nodes"),
    *("memory_per_node_mib", "memory_per_cpu_mib", "memory_per_gpu_mib", "all_memory", "exclusive"),
    *("constraints", "gres", "time_limit_seconds"),
)


class ListedPrices:
    """What the jobs of a list will cost. Those that ask for the same are priced once: a queue has few such requests."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._prices = JobPrices(catalogue)
        self._requests: dict[Asked, tuple[Asked, PendingJobs]] = {}
        self._known: dict[tuple[Asked, int], int | None] = {}

    def asked(self, job: Job) -> Asked:
        """What a job asks for, interned: all jobs that ask for the same share one object."""
        asked: Asked = (*_PRICED(job), job.started_at is None)
        known = self._requests.get(asked)
        if known is None:
            known = self._requests[asked] = asked, job.request
        return known[0]

    def price(self, asked: Asked, tasks: int) -> int | None:
        """The cost of all tasks of an array (1 for any other job); None where nobody knows it, as without a limit."""
        if (asked, tasks) not in self._known:
            self._known[asked, tasks] = self._prices.micro_usd(self._requests[asked][1], tasks)
        return self._known[asked, tasks]

    def micro_usd(self, job: Job, tasks: int) -> int | None:
        """As `price`, of a job."""
        return self.price(self.asked(job), tasks)

    def projected(self, jobs: Iterable[Job]) -> int | None:
        """The cost of a job's components, or of an array and its tasks with records of their own. See `LiveJob`."""
        whole: LiveJob | None = None
        for job in jobs:
            whole = whole or LiveJob(job)
            whole.add(job, self.asked(job))
        return 0 if whole is None else whole.projected(self)


class OwnedJob(Protocol):
    """Whose a job is, and since when Slurm has it."""

    @property
    def user(self) -> str: ...  # noqa: D102
    @property
    def account(self) -> str: ...  # noqa: D102
    @property
    def submitted_at(self) -> Moment: ...  # noqa: D102


class LiveJob:
    """A job that waits or runs, from all its records: of a heterogeneous job the components, of an array that of the
    waiting tasks and those of the tasks with records of their own. A cluster may have 100,000, so it is small."""

    __slots__ = ("_records", "account", "job_id", "submitted_at", "user")

    def __init__(self, job: Job) -> None:
        """`job` is any of its records. It is not added yet."""
        self.job_id = whole_id(job)
        self.user, self.account, self.submitted_at = job.user, job.account, job.submitted_at
        self._records: dict[JobId, tuple[Asked, str, bool]] = {}
        """By the id of a record: what it asks for, the tasks that it stands for, and whether it waits."""

    def add(self, job: Job, asked: Asked) -> None:
        """Add a record. One that changes while the list is read may come twice: the later one counts."""
        self._records[job.job_id] = asked, job.array_tasks, job.state == "PENDING"

    @property
    def runs(self) -> bool:
        """Whether a part of it runs, or is suspended."""
        return not all(waits for _, _, waits in self._records.values())

    @property
    def waits(self) -> bool:
        """Whether a part of it waits."""
        return any(waits for _, _, waits in self._records.values())

    def projected(self, prices: ListedPrices, *, waiting: bool = True) -> int | None:
        """The cost of all its parts, or without those that wait; None where one of them has none.

        A task counts once: the array may still list one whose own record is there already.
        """
        apart = [int(task) for job_id in self._records if (task := job_id.partition("_")[2]).isdecimal()]
        records = (each for each in self._records.values() if waiting or not each[2])
        return total(prices.price(asked, task_count(tasks, apart)) for asked, tasks, _ in records)

    def waiting_tasks(self) -> Iterator[str]:
        """The waiting tasks of an array of which others run, as selections of `ChangeJob`."""
        for job_id, (_, tasks, waits) in self._records.items():
            if waits and tasks:
                yield from _selections(self.job_id, tasks)
            elif waits:
                yield job_id


def _selections(array: JobId, tasks: str) -> Iterator[str]:
    """The tasks of an array, in selections that are no longer than one may be."""
    chosen = ""
    for part in filter(_RANGE.fullmatch, tasks.partition("%")[0].split(",")):
        if chosen and len(array) + len(chosen) + len(part) + len("_[,]") > MAX_SELECTION_CHARACTERS:
            yield f"{array}_[{chosen}]"
            chosen = ""
        chosen = f"{chosen},{part}" if chosen else part
    if chosen:
        yield f"{array}_[{chosen}]"


def whole_id(job: Job) -> JobId:
    """The id of the submit that a record belongs to: of an array or a heterogeneous job that of the whole."""
    return job.het_job_id or job.job_id.partition("_")[0]


def changed_by(job: Job, update: Update) -> Job:
    """Return the job after a change, as far as its cost depends on it. More tasks have no fewer CPUs each."""
    changes, further = update.changes, update.further
    updates: dict[str, object] = {}
    if changes.time_limit is not None:
        updates["time_limit_seconds"] = changes.time_limit * 60.0
    if further.memory_per_node is not None or further.memory_per_cpu is not None:
        updates |= {"memory_per_node_mib": further.memory_per_node, "memory_per_cpu_mib": further.memory_per_cpu}
        updates |= {"memory_per_gpu_mib": None, "all_memory": False}
    if further.tasks is not None:
        updates["cpus"] = -(-job.cpus * further.tasks // max(job.tasks, 1))
    if further.constraints is not None:
        updates["constraints"] = further.constraints
    return job.model_copy(update=updates)


UNANSWERED_SECONDS = 900.0
"""How long the reservation of a submit without an answer waits for its job. Then it is released."""
_CLOCKS = timedelta(seconds=5)
"""Slurm tells whole seconds, by a clock of its own."""


def orphan_of(job: OwnedJob, orphans: Iterable[Reservation], projected: int) -> Reservation | None:
    """The reservation of an unanswered submit that this job probably belongs to: by the same user, shortly before.

    Of several, the one nearest to the projected cost.
    """
    kept = timedelta(seconds=UNANSWERED_SECONDS)
    fitting = [
        each for each in orphans if each.user == job.user and -_CLOCKS <= job.submitted_at - each.made_at <= kept
    ]
    return min(fitting, key=lambda each: abs(each.micro_usd - projected), default=None)


def may_be_of(job: OwnedJob, submit_at: Moment | None) -> bool:
    """Whether a job may be that of its user's oldest unanswered submit, made at `submit_at`; None: there is none."""
    return submit_at is not None and job.submitted_at >= submit_at - _CLOCKS


def of_account(quotas: Iterable[Quota], reservation: Reservation, job: OwnedJob) -> tuple[Quota, ...]:
    """The quota of a job's account, if it does not count the job yet: a submit need not name the account."""
    account = job.account or "?"
    return tuple(
        quota
        for quota in quotas
        if quota.scope.kind == "account" and quota.scope.name == account and quota.scope not in reservation.scopes
    )


def counts(quota: Quota, ref: ClusterRef, job: OwnedJob) -> bool:
    """Whether a quota counts a job."""
    match quota.scope.kind:
        case "user":
            return quota.scope.name == (job.user or "?")
        case "account":
            return quota.scope.name == (job.account or "?")
        case "tenant":
            return quota.scope.name == ref.tenant


def as_at_submit(quotas: Iterable[Quota], submitted_at: Moment) -> tuple[Quota, ...]:
    """The quotas as they hold for a job: one that was set after the submit counts the job, and refuses nothing."""
    return tuple(
        quota.model_copy(update={"mode": "warn"}) if quota.set_at > submitted_at + _CLOCKS else quota
        for quota in quotas
    )


def reservation_for(ref: ClusterRef, job: LiveJob, counting: tuple[Quota, ...], micro_usd: int) -> Reservation:
    """The reservation of a job that did not come through a submit."""
    return Reservation(
        # The same for every gateway, so that one of them reserves.
        id=uuid.uuid5(uuid.NAMESPACE_OID, f"{ref.key}#{job.job_id}#{int(job.submitted_at.timestamp())}").hex,
        tenant=ref.tenant,
        cluster=ref.cluster,
        month=month_of(job.submitted_at),
        scopes=tuple(quota.scope for quota in counting),
        micro_usd=micro_usd,
        user=job.user,
        made_at=job.submitted_at,
        job_id=job.job_id,
    )
