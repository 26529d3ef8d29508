"""What jobs cost, for the answers with a job or a page of jobs: the ledger is read once for 500 jobs."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from itertools import batched

import structlog
from clusterra_contracts.identity import ClusterRef, JobId, Moment, now
from clusterra_contracts.rpc import slurm
from clusterra_contracts.rpc.costs import MAX_COST_DAYS, MAX_COST_JOBS, CostOfJob, JobCost, ReadJobCosts
from clusterra_contracts.rpc.slurm import Job, Viewer
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.bus.requests import LedgerRequests
from clusterra_gateway.http.answers.responses import Money, ResponseBody, money
from clusterra_gateway.submission.staged_files import JobStaging

log = structlog.get_logger()

RECENT = timedelta(days=31)
"""Jobs that began longer ago are read apart: the ledger keeps the last months at hand."""


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
        cost = _nothing(now())
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


class JobPage(slurm.JobPage):
    """One page of jobs; `total` counts all that match; `cursor` continues after the page and is null at the end.

    `costs` has the cost of each job by its id. It is null where it was not asked for.
    """

    costs: dict[JobId, Cost] | None = None


async def page_with_costs(
    ledger: LedgerRequests, ref: ClusterRef, viewer: Viewer, page: slurm.JobPage, *, costs: bool
) -> JobPage:
    """A page of jobs that the viewer sees, with what they cost if that is asked for."""
    found = await _costs_of_page(ledger, ref, viewer, page.jobs) if costs else None
    return JobPage.model_construct(jobs=page.jobs, total=page.total, cursor=page.cursor, costs=found)


async def _costs_of_page(
    ledger: LedgerRequests, ref: ClusterRef, viewer: Viewer, jobs: Sequence[Job]
) -> dict[JobId, Cost]:
    as_of = now()
    ran, today = [job for job in jobs if may_cost(job)], as_of.date()
    # The ledger reads all days since the first job of a read. So old jobs, which take long, do not delay the others.
    groups = [[job for job in ran if (first_day([job], today) >= today - RECENT) == newer] for newer in (True, False)]
    # Unknown, but for jobs that never ran, until the ledger tells.
    found = costs_of(jobs, {}, as_of, incomplete=True)
    batches = [some for group in groups for some in batched(group, MAX_COST_JOBS)]
    for costs in await asyncio.gather(*(_costs_of_some(ledger, ref, viewer, some, as_of) for some in batches)):
        found |= costs
    return found


async def _costs_of_some(
    ledger: LedgerRequests, ref: ClusterRef, viewer: Viewer, jobs: Sequence[Job], as_of: Moment
) -> dict[JobId, Cost]:
    ids, since = tuple(job.job_id for job in jobs), first_day(jobs, as_of.date())
    try:
        answer = await ledger.jobs(ref, ReadJobCosts(job_ids=ids, since=since, viewer=viewer))
    except RpcFailed as failed:
        log.info("job_costs_unknown", tenant=ref.tenant, cluster=ref.cluster, reason=failed.error.detail)
        return {}
    return costs_of(jobs, {cost.job_id: cost for cost in answer.costs}, as_of, incomplete=answer.incomplete)


def may_cost(job: Job) -> bool:
    """Whether the ledger is asked. A job that never ran costs nothing; so does the pending rest of an array, whose
    tasks that ran are listed by themselves; and a run that ended in the second of its start has no lines.
    """
    return job.restarts > 0 or (job.started_at is not None and job.started_at != job.ended_at)


def first_day(jobs: Iterable[Job], today: date) -> date:
    """The day (UTC) before which none of these jobs ran; the ledger reads MAX_COST_DAYS at most."""
    oldest = today - timedelta(days=MAX_COST_DAYS - 1)
    # A job that was requeued ran before its last start.
    began = (job.submitted_at if job.restarts or job.started_at is None else job.started_at for job in jobs)
    return max(oldest, min((at.date() for at in began), default=today))


def costs_of(
    jobs: Iterable[Job], known: Mapping[JobId, CostOfJob], as_of: Moment, *, incomplete: bool
) -> dict[JobId, Cost]:
    """The cost of each job from what the ledger knows. A job that ran and that it does not know is unknown."""
    found = dict[JobId, Cost]()
    for job in jobs:
        cost = known.get(job.job_id)
        if not may_cost(job):
            found[job.job_id] = _nothing(as_of)
        elif cost is None:
            found[job.job_id] = Cost(total=None, as_of=as_of, stale=False, unknown=True)
        else:
            unknown = cost.unknown or incomplete
            found[job.job_id] = Cost(total=money(cost.micro_usd), as_of=as_of, stale=cost.stale, unknown=unknown)
    return found


def _nothing(as_of: Moment) -> Cost:
    return Cost(total=money(0), as_of=as_of, stale=False, unknown=False)
