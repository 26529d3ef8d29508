"""The jobs that Slurm has, and what each asks for."""

from typing import NamedTuple

from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.queue import PendingJobs
from clusterra_contracts.rpc.slurm import Job, ListJobs, Viewer

from clusterra_gateway.bus.requests import SlurmRequests

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
        nodes=max(job.node_count, 1),
        memory_per_node_mib=job.memory_per_node_mib,
        memory_per_cpu_mib=job.memory_per_cpu_mib,
        gres=job.gres,
        partition=job.partition,
        uid=job.uid,
        reason=job.reason,
        first_submitted_at=job.submitted_at,
        time_limit_seconds=job.time_limit_seconds,
    )
