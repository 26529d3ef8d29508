"""A job with what it cost so far."""

import structlog
from clusterra_contracts.identity import ClusterRef, Moment, now
from clusterra_contracts.rpc.costs import JobCost
from clusterra_contracts.rpc.slurm import Job, Viewer
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.bus.requests import LedgerRequests
from clusterra_gateway.http.answers.responses import Money, ResponseBody, money
from clusterra_gateway.submission.staged_files import JobStaging

log = structlog.get_logger()


class Cost(ResponseBody):
    """What a job cost, with all its runs, until `as_of`."""

    total: Money | None
    """Null while it is unknown. A job that has not started costs nothing."""
    as_of: Moment
    stale: bool
    """Whether the edge had not confirmed the price for a part of the time."""
    unknown: bool
    """Whether no price is known for a part of the time. `total` does not contain it."""


class JobWithCost(Job):
    """A job as its owner sees it, with its cost."""

    cost: Cost | None = None
    """Null when the ledger does not answer."""
    staging: JobStaging | None = None
    """Null for a job without files that are staged."""


async def with_cost(ledger: LedgerRequests, ref: ClusterRef, viewer: Viewer, job: Job) -> JobWithCost:
    """Add the cost of a job, as far as the ledger knows it. The ledger is not asked about a job that never ran.

    It is asked about the pending rest of an array, whose other tasks may have run.
    """
    cost: Cost | None
    if job.state == "PENDING" and job.restarts == 0 and not job.array_tasks:
        cost = Cost(total=money(0), as_of=now(), stale=False, unknown=False)
    else:
        try:
            cost = _cost(job, await ledger.job(ref, viewer, job.job_id))
        except RpcFailed as failed:
            log.info("job_cost_unknown", job_id=job.job_id, reason=failed.error.detail)
            cost = None
    return JobWithCost.model_validate({**dict(job), "cost": cost})


def _cost(job: Job, told: JobCost) -> Cost:
    # A job that runs already may be new to the ledger.
    missing = told.runs == 0 and job.started_at is not None
    return Cost(
        total=None if missing else money(told.micro_usd),
        as_of=told.as_of,
        stale=told.stale,
        unknown=told.unknown or missing,
    )
