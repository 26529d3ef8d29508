"""Respects the gateway's claim of an idempotency key: when a submit may begin, and how its job is found in Slurm."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import structlog
from clusterra_contracts.identity import SlurmUser, now
from clusterra_contracts.rpc.deadlines import BEGIN_SECONDS, CLOCK_SKEW_SECONDS
from clusterra_contracts.rpc.slurm import Claim, FindKey, FoundKey, Submitted
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.slurmrestd.errors import SlurmFailed, Unavailable
from clusterra_proxy.slurmrestd.records import JobRecord

log = structlog.get_logger(__name__)

UNCLAIMED_LOOKBACK = timedelta(hours=1)
"""How far back the job of a key is looked for when the gateway, of an earlier release, sent no claim."""
SUBMIT_TIME_MARGIN = timedelta(hours=12)
"""How much earlier than its claim a job may seem, beyond what Slurm's clock is behind: it may have been set since. Keys
live for a day, so an earlier job of the same key is not mistaken for this one's."""
ACCOUNTING_MARGIN = timedelta(hours=1)
"""The same for the jobs that slurmdbd is asked for: a longer time would make it list many more jobs of the user."""
SETTLE_PAUSE_SECONDS = 2.0
"""Time between the two looks that together prove that there is no job. A slurmctld that was held up carries out the
submits that it already has in this time after its first answer."""
_LISTS = 3


def unclaimed() -> Claim:
    """What a key without a claim allows: to look for its job, and then to submit."""
    return Claim(claimed_at=now() - UNCLAIMED_LOOKBACK, sent_at=now(), begin_by=latest_begin())


def latest_begin() -> datetime:
    """The last moment at which a request that arrives now may begin to submit."""
    return now() + timedelta(seconds=BEGIN_SECONDS)


def check_clock(claim: Claim, at: datetime) -> None:
    """Raise Unavailable for a claim from the future: with such clocks nobody could tell when an attempt is over."""
    ahead = (claim.sent_at - at).total_seconds()
    if ahead > CLOCK_SKEW_SECONDS:
        raise Unavailable(
            f"the gateway's clock is {ahead:.0f} s ahead of the proxy's, so the job was not submitted",
            hint="an operator must correct the clocks; then send the request again",
        )


def check_begin(begin_by: datetime, at: datetime) -> None:
    """Raise Unavailable when it is too late to begin to submit."""
    if at > begin_by:
        raise _too_late()


@asynccontextmanager
async def preparing(begin_by: datetime) -> AsyncIterator[None]:
    """End the block with Unavailable once it is too late to begin to submit."""
    try:
        async with asyncio.timeout((begin_by - now()).total_seconds()):
            yield
    except TimeoutError:
        raise _too_late() from None


def _too_late() -> Unavailable:
    return Unavailable("it took too long to prepare the submit, so it was not sent", hint="send the request again")


async def look(cluster: Cluster, user: SlurmUser, key: str, claimed_at: datetime) -> Submitted | None:
    """Find the job of a key where that costs little. None proves nothing.

    Raises the errors of `clusterra_proxy.slurmrestd.errors`.
    """
    claimed_at = await _by_slurms_clock(cluster, claimed_at)
    if cluster.jobs_fresh and (found := find(cluster.jobs, user.uid, key, claimed_at)):
        return found
    return find(await _accounting(cluster, user, claimed_at), user.uid, key, claimed_at)


async def look_thoroughly(cluster: Cluster, user: SlurmUser, key: str, claimed_at: datetime) -> Submitted | None:
    """Find the job of a key among all of slurmctld's and slurmdbd's jobs; None: neither had it when it was asked.

    Raises the errors of `clusterra_proxy.slurmrestd.errors`.
    """
    # slurmctld first: it may purge a job while it is asked, and slurmdbd has the job by then.
    if found := (await _find_in_slurmctld(cluster, FindKey(user=user, idempotency_key=key, claimed_at=claimed_at))).job:
        return found
    claimed_at = await _by_slurms_clock(cluster, claimed_at)
    return find(await _accounting(cluster, user, claimed_at), user.uid, key, claimed_at)


async def _find_in_slurmctld(cluster: Cluster, request: FindKey) -> FoundKey:
    """Ask the replica that watches, which has all jobs after its next poll; without one, list them."""
    try:
        found = await cluster.find_watched(request) if cluster.find_watched is not None else None
    except RpcFailed as failed:
        raise Unavailable(failed.error.detail, hint=failed.error.hint) from failed
    return found if found is not None else await find_here(cluster, request)


async def find_here(cluster: Cluster, request: FindKey) -> FoundKey:
    """Find the job of a key among all of slurmctld's jobs, as it has them at some time after this call.

    Raises the errors of `clusterra_proxy.slurmrestd.errors`; then nobody knows.
    """
    claimed_at = await _by_slurms_clock(cluster, request.claimed_at)
    uid = request.user.uid
    records = await _slurmctld(cluster)
    found = find(records, uid, request.idempotency_key, claimed_at)
    if found is None and any(hides_a_key(record, uid) for record in records):
        raise Unavailable("a job's record in Slurm cannot be read, and it may be the job of this key")
    return FoundKey(job=found)


async def settle(cluster: Cluster, user: SlurmUser, key: str, claimed_at: datetime) -> Submitted | None:
    """Find the job of a key whose earlier attempts are over; None: there is none, and there will be none.

    Raises the errors of `clusterra_proxy.slurmrestd.errors`; then nobody knows yet.
    """
    if found := await look_thoroughly(cluster, user, key, claimed_at):
        return found
    await asyncio.sleep(SETTLE_PAUSE_SECONDS)
    return await look_thoroughly(cluster, user, key, claimed_at)


def find(records: Iterable[JobRecord], uid: int, key: str, claimed_at: datetime) -> Submitted | None:
    """Return the job of a user's key. Only Slurm's uid proves whose key it is; the comment does not."""
    jobs: dict[str, datetime] = {}
    for record in records:
        if record.user_id != uid or key not in record.comment or record.parsed_comment.key != key:
            continue
        submitted_at = record.submit_time or claimed_at
        if submitted_at >= claimed_at - SUBMIT_TIME_MARGIN:
            job_id = str(record.array or record.job_id)
            jobs[job_id] = min(jobs.get(job_id, submitted_at), submitted_at)
    if not jobs:
        return None
    if len(jobs) > 1:
        log.error("key_has_several_jobs", key=key, job_ids=sorted(jobs))
    job_id = min(jobs, key=lambda job_id: (jobs[job_id], int(job_id)))
    return Submitted(job_id=job_id, accepted_at=jobs[job_id], repeated=True)


def hides_a_key(record: JobRecord, uid: int) -> bool:
    """Whether this may be the job of any key of a user: the part of the record that tells is unreadable."""
    unreadable = {"comment", "user_id"}.intersection(record.unreadable)
    return bool(unreadable) and (record.user_id == uid or "user_id" in unreadable)


async def _by_slurms_clock(cluster: Cluster, moment: datetime) -> datetime:
    """Return a moment by Slurm's clock, by which jobs have their submit times, when that is behind this one."""
    try:
        ahead = await cluster.slurmctld.clock_ahead(cluster.mint.operator_token())
    except Unavailable:
        raise
    except SlurmFailed as error:
        # Any other kind would be the answer to the look itself, such as that there is no job.
        raise Unavailable(f"slurmctld's clock cannot be read: {error.error.detail}") from error
    return moment + min(ahead, timedelta())


async def _slurmctld(cluster: Cluster) -> tuple[JobRecord, ...]:
    """All records of slurmctld, as it had them at some time after the call."""
    asked_at = now()
    if cluster.listener is not None and await cluster.wait_for_poll(asked_at):
        return _identified(tuple(cluster.jobs), cluster.unidentified_jobs)
    for _ in range(_LISTS):
        # A list that another caller asked for earlier, or that only tells changes, does not count.
        listed = await cluster.slurmctld.jobs(cluster.mint.operator_token())
        if listed is not None and listed[0] >= asked_at:
            return _identified(listed[1], listed[3])
    raise Unavailable("slurmctld's jobs could not be listed", hint="try again in a moment")


def _identified(records: tuple[JobRecord, ...], unidentified: int) -> tuple[JobRecord, ...]:
    if unidentified:
        raise Unavailable("slurmctld has jobs whose records cannot be read, and one may be the job of this key")
    return records


async def _accounting(cluster: Cluster, user: SlurmUser, claimed_at: datetime) -> Iterable[JobRecord]:
    token = cluster.mint.operator_token()
    return await cluster.accounting.submitted(token, after=claimed_at - ACCOUNTING_MARGIN, uid=user.uid)
