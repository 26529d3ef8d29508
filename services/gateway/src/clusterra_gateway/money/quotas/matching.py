"""Which quotas and which reservation belong to a job."""

import uuid
from collections.abc import Iterable
from datetime import timedelta

from clusterra_contracts.identity import ClusterRef, JobId
from clusterra_contracts.rpc.slurm import Job

from clusterra_gateway.money.quotas.records import Quota, QuotaScope, Reservation
from clusterra_gateway.money.quotas.reservations import month_of

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
    account = QuotaScope(kind="account", name=job.account or "?")
    return tuple(quota for quota in quotas if quota.scope == account and account not in reservation.scopes)


def counts(quota: Quota, ref: ClusterRef, job: Job) -> bool:
    """Whether a quota counts a job."""
    return quota.scope in (
        QuotaScope(kind="user", name=job.user or "?"),
        QuotaScope(kind="account", name=job.account or "?"),
        QuotaScope(kind="tenant", name=ref.tenant),
    )


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
