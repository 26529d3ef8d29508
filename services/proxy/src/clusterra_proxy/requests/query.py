"""Reads jobs: from a fresh observation, else from slurmctld, and older jobs from slurmdbd."""

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from functools import partial

import structlog
from clusterra_contracts.identity import JobId, now
from clusterra_contracts.job_states import LIVE
from clusterra_contracts.rpc.job_search import is_found
from clusterra_contracts.rpc.slurm import CountJobs, GetJob, Job, JobCounts, JobPage, ListJobs

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.cluster.recent_jobs import Submitted
from clusterra_proxy.cluster.usage import with_usage
from clusterra_proxy.requests.earlier_runs import without_earlier_runs
from clusterra_proxy.requests.job_order import JobOrder
from clusterra_proxy.requests.view import array_view, is_shown, job_view
from clusterra_proxy.slurmrestd.accounting import OLDEST
from clusterra_proxy.slurmrestd.accounting_records import SUPERSEDED
from clusterra_proxy.slurmrestd.errors import NotFound
from clusterra_proxy.slurmrestd.notation import array_tasks
from clusterra_proxy.slurmrestd.records import JobRecord

log = structlog.get_logger(__name__)

MANY_RECORDS = 5000
"""From here on, a page is selected on a thread: 60,000 records take 0.1 to 0.2 s of CPU."""


async def get_job(cluster: Cluster, request: GetJob) -> Job:
    """Return one job, one task, or an array as a whole. Raises NotFound, also for another user's job."""
    cluster.mint.names.learn_viewer(request.viewer)
    records = await find_records(cluster, request.job_id, while_polls_are_late=True)
    if records and not request.viewer.sees(records[0].user_id):
        records = ()
    in_accounting = not records
    if in_accounting:
        found = await _read_accounting(cluster, request.job_id, request.viewer.only_uid)
        records = select_records(request.job_id, found)
    elif "_" not in request.job_id and records[0].array and all(record.ended for record in records):
        records = await _with_forgotten_tasks(cluster, request.job_id, records)
    job = _as_job(cluster, request.job_id, records) if records else None
    if job is None:
        raise NotFound(f"job {request.job_id} does not exist")
    if in_accounting and job.het_job_id == request.job_id:
        by_offset = sorted(found, key=lambda run: run.het_job_offset or 0)
        job = job.model_copy(update={"het_components": tuple(run.id for run in by_offset)})
    if len(records) == 1:
        job = await with_usage(cluster, job, records[0])
    if "_" in request.job_id and job.job_id != request.job_id:
        # The task has not started: its record stands for all waiting tasks.
        job = job.model_copy(update={"job_id": request.job_id, "array_tasks": "", "unstarted_tasks": ""})
    return job


async def _with_forgotten_tasks(
    cluster: Cluster, job_id: JobId, records: tuple[JobRecord, ...]
) -> tuple[JobRecord, ...]:
    """Return the records of an array that has ended with its tasks that slurmctld has purged.

    It purges each task after its own end. Without them the array would have ended in the state of its last tasks.
    """
    known = {record.id for record in records}
    submitted_at = min((record.submit_time for record in records if record.submit_time), default=OLDEST)
    runs = await _read_accounting(cluster, job_id, records[0].user_id)
    purged = (run for run in runs if run.id not in known and (run.submit_time or OLDEST) >= submitted_at)
    return (*records, *purged)


def _as_job(cluster: Cluster, job_id: JobId, records: tuple[JobRecord, ...]) -> Job | None:
    is_whole_array = "_" not in job_id and records[0].array
    return array_view(cluster, job_id, records) if is_whole_array else job_view(cluster, records[0])


async def find_records(cluster: Cluster, job_id: JobId, *, while_polls_are_late: bool = False) -> tuple[JobRecord, ...]:
    """Return slurmctld's records of a job, a task or an array; an empty tuple when there are none.

    `while_polls_are_late`: also from an observation that is only as recent as the polls allow, as for lists. Polls are
    late when slurmrestd is busy, such as with a long list. If each read of a job went there then, hundreds would wait
    behind its four threads, and the polls behind them. After a change through this replica it goes there all the same.
    """
    await cluster.wait_for_own_changes()
    known = cluster.jobs_fresh or (while_polls_are_late and cluster.jobs_listable and not cluster.changed_since_poll)
    if known and (records := cluster.jobs.job(job_id)):
        return records
    requested_at = now()
    try:
        records = await cluster.slurmctld.job(cluster.mint.operator_token(), job_id)
    except NotFound:
        return ()
    cluster.observe_jobs(records, requested_at)
    # slurmctld returns the whole array when one of its tasks is requested.
    return select_records(job_id, records)


async def list_jobs(cluster: Cluster, request: ListJobs, *, fresh: bool = False) -> JobPage:
    """Return one page of jobs: slurmctld's, and older ones if the request filters by time.

    `fresh` is that of `ListWatched`.
    """
    records = await _all_records(cluster, request, fresh=fresh)
    select = partial(_select_page, cluster, records, request)
    page, total, cursor = select() if len(records) < MANY_RECORDS else await asyncio.to_thread(select)
    jobs = (job_view(cluster, record) for record in page)
    return JobPage(jobs=tuple(job for job in jobs if job is not None), total=total, cursor=cursor)


async def count_jobs(cluster: Cluster, asked: CountJobs) -> JobCounts:
    """Count the jobs that match, by state: those that a list with the same filters has on all its pages."""
    request = asked.request.model_copy(update={"states": None})
    records = await _all_records(cluster, request, fresh=asked.fresh)
    count = partial(_count, cluster, records, request)
    states = count() if len(records) < MANY_RECORDS else await asyncio.to_thread(count)
    return JobCounts(states=states, total=sum(states.values()))


async def _all_records(cluster: Cluster, request: ListJobs, *, fresh: bool) -> tuple[JobRecord, ...]:
    """Return slurmctld's jobs, and older ones if the request filters by time."""
    cluster.mint.names.learn_viewer(request.viewer)
    records = await _list_slurmctld(cluster, fresh=fresh)
    # From before the records are used: a job that is purged later is still among them. While polls fail, purges go
    # unseen, so each page reads accounting.
    settled_at = cluster.jobs.settled_at if cluster.jobs_listable else now()
    if older := await _list_accounting(cluster, request, settled_at):
        here = {record.job_id for record in records}
        # For unfinished runs and pending tasks slurmctld is authoritative.
        past = (record for record in older if record.ended or record.job_id not in here)
        merged = {(record.id, record.submit_time): record for record in past}
        merged |= {(record.id, record.submit_time): record for record in records}
        records = without_earlier_runs(merged.values())
    return records


def _matching(cluster: Cluster, records: tuple[JobRecord, ...], request: ListJobs) -> list[JobRecord]:
    """Return the records that the viewer sees and that match."""
    matches = _filter(cluster, request)
    return [
        record
        for record in records
        if request.viewer.sees(record.user_id) and is_shown(record) and (matches is None or matches(record))
    ]


def _count(cluster: Cluster, records: tuple[JobRecord, ...], request: ListJobs) -> dict[str, int]:
    return dict(sorted(Counter(record.state for record in _matching(cluster, records, request)).items()))


def _select_page(
    cluster: Cluster, records: tuple[JobRecord, ...], request: ListJobs
) -> tuple[list[JobRecord], int, str | None]:
    """Return the records of the page, the number of all that match, and the cursor of the next page."""
    matching = _matching(cluster, records, request)
    page, cursor = JobOrder(request.sort, cluster.owner_name).page(matching, request.cursor, request.limit)
    return page, len(matching), cursor


async def _list_slurmctld(cluster: Cluster, *, fresh: bool) -> tuple[JobRecord, ...]:
    await cluster.wait_for_own_changes()
    if fresh and cluster.jobs_listable:
        # An observation that is late is better than another list while Slurm is slow.
        await cluster.wait_for_poll(now())
    if cluster.jobs_listable:
        return tuple(cluster.jobs)
    return await cluster.recent.jobs.get(cluster.changed_at)


async def _list_accounting(cluster: Cluster, request: ListJobs, settled_at: datetime) -> tuple[JobRecord, ...]:
    """Return the runs of accounting, from a read that began at `settled_at` or later, which others may share.

    Whatever slurmctld still has stands over them. So of a read that is some seconds old, only what has left slurmctld
    since could be wrong, and `Event-Position` may be newer than the read.
    """
    if request.submitted_after is None and request.submitted_before is None:
        return ()
    if request.states is not None and set(request.states) <= LIVE:
        return ()
    asked = Submitted.between(request.submitted_after, request.submitted_before, request.viewer.only_uid)
    return await cluster.recent.runs.get(asked, settled_at)


async def _read_accounting(cluster: Cluster, job_id: JobId, uid: int | None) -> tuple[JobRecord, ...]:
    """Return accounting's records of a job that slurmctld has purged; of a reused id, those of the newest job.

    For the first component of a heterogeneous job that has started, those of all components. For a task that never
    started, that of all such tasks of its array.
    """
    runs = await cluster.accounting.job(cluster.mint.operator_token(), job_id, uid=uid)
    if "_" in job_id and not runs:
        whole = await cluster.accounting.job(cluster.mint.operator_token(), job_id.partition("_")[0], uid=uid)
        runs = tuple(run for run in whole if run.is_waiting_array)
    latest = {run.id: run for run in sorted(runs, key=lambda run: run.submit_time or now()) if run.state != SUPERSEDED}
    if not latest:
        return ()
    newest = max(latest.values(), key=lambda run: run.submit_time or now())
    return tuple(run for run in latest.values() if run.array == newest.array)


def select_records(job_id: JobId, records: tuple[JobRecord, ...]) -> tuple[JobRecord, ...]:
    """Return the records of a job, a task or an array from an answer to `GET job/{id}`.

    Slurm answers with all components when the first one of a heterogeneous job is asked for.
    """
    if "_" not in job_id:
        return tuple(record for record in records if not record.het_job_id or record.id == job_id)
    task = int(job_id.partition("_")[2])
    exact = tuple(record for record in records if record.id == job_id)
    return exact or tuple(
        record for record in records if record.is_waiting_array and array_tasks.contains(record.array_task_string, task)
    )


def _filter(cluster: Cluster, request: ListJobs) -> Callable[[JobRecord], bool] | None:
    """Return the predicate of the filters of a request; None for a request without any."""
    exact = [
        (name, value)
        for name in ("name", "partition", "account", "qos")
        if (value := getattr(request, name)) is not None
    ]
    states, user = request.states, request.user
    after, before, search = request.submitted_after, request.submitted_before, request.search
    if not exact and states is None and user is None and after is None and before is None and search is None:
        return None

    def matches(record: JobRecord) -> bool:
        submitted_at = record.submit_time or OLDEST
        return (
            (states is None or record.state in states)
            and (user is None or cluster.owner_name(record) == user)
            and (after is None or submitted_at >= after)
            and (before is None or submitted_at <= before)
            and all(getattr(record, name) == value for name, value in exact)
            and (search is None or is_found(search, record.id, record.name))
        )

    return matches
