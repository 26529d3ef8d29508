"""The jobs that Slurm has, and what each asks for."""

from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.job_price import JobPrices
from clusterra_contracts.queue import PendingJobs
from clusterra_contracts.rpc.slurm import Job, ListJobs, Viewer
from clusterra_contracts.rpc.slurm_jobs import Update
from clusterra_contracts.shapes import Catalogue

from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_gateway.money.quotas.array_tasks import task_count

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
        costs = [self.micro_usd(job, task_count(job.array_tasks, apart)) for job in known]
        priced = [cost for cost in costs if cost is not None]
        return sum(priced) if len(priced) == len(costs) else None


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
