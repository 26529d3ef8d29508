"""Cancels jobs."""

import asyncio

import structlog
from clusterra_contracts.identity import JobId, now
from clusterra_contracts.rpc.reply import Done
from clusterra_contracts.rpc.slurm import Cancel, Viewer

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.requests.actions import Actions
from clusterra_proxy.requests.query import find_records
from clusterra_proxy.slurmrestd.error_codes import ALREADY_DONE
from clusterra_proxy.slurmrestd.errors import Conflict, Forbidden, NotFound, SlurmFailed
from clusterra_proxy.slurmrestd.records import JobRecord

REPLY_FIRST_SECONDS = 0.005
"""How long a changed job is not read yet. Without this pause the read comes before the reply on the event loop, and its
work on the same cores: a submit's answer took 2 ms longer."""

log = structlog.get_logger(__name__)


async def cancel(actions: Actions, cluster: Cluster, request: Cancel) -> Done:
    """Cancel a job, a task or an array. Succeeds for a job that has already ended.

    The first component of a heterogeneous job stands for all. So does any other that waits: without it the others would
    wait for ever.

    An owner's cancel uses the owner's token; an admin's cancel of another user's job uses the proxy's. Raises
    NotFound, also for a job that the viewer does not see, and Forbidden for one that they only see.
    """
    job_id, viewer = request.job_id, request.viewer
    records = await find_records(cluster, job_id)
    if not records:
        if await cluster.accounting.job(cluster.mint.operator_token(), job_id, uid=viewer.only_uid):
            return Done()
        raise NotFound(f"job {job_id} does not exist")
    check_may_change(viewer, records[0], job_id)
    is_owner = viewer.owns(records[0].user_id)
    token = await cluster.user_token(viewer.user) if is_owner else cluster.mint.operator_token()
    leader = records[0].het_job_id
    killed = str(leader) if leader and records[0].state == "PENDING" else job_id
    try:
        await cluster.slurmctld.kill(token, killed)
    except Conflict as error:
        if error.error.code != ALREADY_DONE:
            raise
        return Done()
    cluster.follow_own_change(refresh_job(cluster, killed))
    await actions.note("action.cancel", viewer, job_id, records[0])
    return Done()


def check_may_change(viewer: Viewer, record: JobRecord, job_id: str) -> None:
    """Raise NotFound for a job that the viewer does not see, and Forbidden for one that they only see."""
    if not viewer.sees(record.user_id):
        raise NotFound(f"job {job_id} does not exist")
    if not viewer.changes(record.user_id):
        raise Forbidden(f"job {job_id} belongs to another user", hint="its owner or an admin can change it")


async def refresh_job(cluster: Cluster, job_id: JobId) -> None:
    """Read a job after a change through this proxy, so that the queue shows it at once.

    After a failure, the next poll reads the job.
    """
    await asyncio.sleep(REPLY_FIRST_SECONDS)
    requested_at = now()
    try:
        records = await cluster.slurmctld.job(cluster.mint.operator_token(), job_id)
    except SlurmFailed as error:
        log.info("job_not_read_at_once", job_id=job_id, reason=str(error))
        return
    cluster.observe_jobs(records, requested_at)
