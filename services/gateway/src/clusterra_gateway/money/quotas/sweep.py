"""Settles reservations of jobs that have ended, reserves for jobs of plain sbatch, cancels what is over a quota.

Every replica does so, in any order: each step is one transaction that happens once.
"""

import asyncio
import time
from collections.abc import Iterable
from datetime import timedelta

import structlog
from clusterra_contracts.events import JOB_ENDS, Event
from clusterra_contracts.identity import ClusterRef, JobId, SlurmUser, now
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.rpc.slurm import Job, Viewer
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.store import StoreError
from clusterra_runtime.sweeps.agenda import Bounds, Place
from clusterra_runtime.sweeps.sweeper import Pace, Sweep, Sweeper

from clusterra_gateway.bus.requests import LedgerRequests, SlurmRequests
from clusterra_gateway.http.requests.errors import QuotaExceeded
from clusterra_gateway.money.quotas.jobs import (
    ListedPrices,
    counts,
    listed_jobs,
    of_account,
    orphan_of,
    record_order,
    reservation_for,
)
from clusterra_gateway.money.quotas.records import Quota, QuotaScope, Reservation, month_of
from clusterra_gateway.money.quotas.reservations import ClusterReservations, PendingReservation, Reservations
from clusterra_gateway.money.quotas.settling import Settling, Unanswered
from clusterra_gateway.money.quotas.slurm_limits import SlurmLimits

log = structlog.get_logger()

INTERVAL_SECONDS = 5.0
SWEEP_SECONDS = 300.0
"""How long one look at a cluster may take: thousands of jobs may be over a quota at once."""
BOUNDS = Bounds(at_once=8)
NO_QUOTA_SECONDS = 15.0
"""How long a cluster without reservations is skipped while its tenant has no quotas.

So a tenant's first quota counts jobs of plain sbatch after this time at the latest, also those that wait already.
"""
ANSWER_SECONDS = 60.0
"""How long after a submit without an answer its user's new jobs are left alone: one may be that submit's."""
CANCEL_SECONDS = 120.0
"""How long a cancelled job is remembered. One that still runs then is cancelled again."""
TOLERATED_PERCENT = 125
"""How many percent of its reservation the projected cost of a job's record may reach before more is reserved.

The record may show more than the submit did, such as memory that the submit left to Slurm.
"""
MAX_RESERVATIONS = 5000
LOOKS_AT_ONCE = 500
"""How many reservations are looked at, before other requests have their turn."""
ACTIVE = ("PENDING", "RUNNING", "SUSPENDED")
ACTOR = Viewer(user=SlurmUser(name="clusterra-quota", uid=64_997, gid=64_997), admin=True)
"""Who cancels: the name stands in the job's history."""
WAKING: frozenset[str] = JOB_ENDS | {"job.submitted"}

type Active = dict[JobId, tuple[Job, ...]]
"""Jobs that wait or run: of a heterogeneous job all components, the first one first; of an array the tasks that have
records of their own, after that of all others."""


class QuotaSweep:
    """Looks at each cluster of a tenant with quotas every few seconds, and at once when a job is submitted or ends."""

    def __init__(
        self, reservations: Reservations, slurm: SlurmRequests, ledger: LedgerRequests, registry: Registry
    ) -> None:
        self._reservations = reservations
        self._slurm = slurm
        self._registry = registry
        self._settling = Settling(reservations, slurm, ledger, ACTOR)
        self._limits = SlurmLimits(slurm)
        self._skip_until: dict[ClusterRef, float] = {}
        self._cancelled: dict[tuple[ClusterRef, JobId], float] = {}
        """The jobs that were cancelled recently, and when."""
        self._woken = asyncio.Event()

    def on_event(self, ref: ClusterRef, _event: Event) -> None:
        """Look soon."""
        if time.monotonic() >= self._skip_until.get(ref, 0.0):
            self._woken.set()

    def sweeper(self) -> Sweeper[ClusterRef]:
        """Looks at the clusters that may have quotas, each once at a time."""
        failures = (StoreError, RpcFailed)
        sweep = Sweep(
            "quotas", self._listed, self._visit, lambda ref: Place(ref.tenant, ref.cluster), failures, self._woken
        )
        return Sweeper(sweep, Pace(INTERVAL_SECONDS, SWEEP_SECONDS), BOUNDS)

    async def _listed(self) -> list[ClusterRef]:
        at = time.monotonic()
        return [ref for ref in self._registry.clusters if at >= self._skip_until.get(ref, 0.0)]

    async def _visit(self, ref: ClusterRef) -> None:
        binding = self._registry.get(ref)
        if binding is not None:
            await self.sweep(ref, binding)

    async def sweep(self, ref: ClusterRef, binding: ClusterBinding) -> None:
        """Look at one cluster once. Raises StoreError, RpcFailed."""
        found = await self._reservations.quotas(ref.tenant)
        quotas = found.readable
        if binding.accounting_enforced:
            # As at a submit, a quota that cannot be read allows nothing.
            await self._limits.keep(ref, binding, [*await self._used_up(ref, quotas), *found.unreadable])
        if not quotas and not any(await self._reservations.of_cluster(ref, 1)):
            self._skip_until[ref] = time.monotonic() + NO_QUOTA_SECONDS
            return
        recent = time.monotonic() - CANCEL_SECONDS
        self._cancelled = {job: at for job, at in self._cancelled.items() if at > recent}
        # The jobs come first: one that is booked meanwhile is then among the reservations.
        active = await self._active(ref)
        reserved = await self._reservations.of_cluster(ref, MAX_RESERVATIONS)
        ended = [each for each in reserved.reservations if each.job_id not in active]
        await self._settling.settle(ref, ended, quotas)
        prices = ListedPrices(binding.catalogue)
        unanswered = Unanswered()
        for number, reservation in enumerate(reserved.reservations):
            if number % LOOKS_AT_ONCE == 0:
                await asyncio.sleep(0)
            jobs = active.get(reservation.job_id, ())
            with unanswered.noted(reservation):
                await self._reserve_more(ref, prices, reservation, jobs)
                await self._count_account(ref, reservation, jobs, quotas)
        await self._reserve_others(ref, prices, quotas, active, reserved)
        for quota in quotas:
            if quota.mode == "block_and_kill":
                await self._kill(ref, quota, reserved.reservations, active)

    async def _used_up(self, ref: ClusterRef, quotas: Iterable[Quota]) -> list[QuotaScope]:
        """The scopes of the quotas that block and have no room at all this month."""
        month = month_of(now())
        return [
            quota.scope
            for quota in quotas
            if quota.mode != "warn"
            and await self._reservations.used(ref.tenant, month, quota.scope) >= quota.ceiling_micro_usd
        ]

    async def _active(self, ref: ClusterRef) -> Active:
        """The jobs that wait or run, by the id of the submit."""
        found: dict[JobId, list[Job]] = {}
        for job in (await listed_jobs(self._slurm, ref, ACTOR, ACTIVE)).jobs:
            found.setdefault(job.het_job_id or job.job_id.partition("_")[0], []).append(job)
        return {job_id: tuple(sorted(jobs, key=record_order)) for job_id, jobs in found.items()}

    async def _reserve_more(
        self, ref: ClusterRef, prices: ListedPrices, reservation: Reservation, jobs: tuple[Job, ...]
    ) -> None:
        """Reserve more for a job that became dearer, such as by `scontrol update`. One that waits must have room."""
        if not jobs or (ref, reservation.job_id) in self._cancelled:
            return
        waits = any(job.state == "PENDING" for job in jobs)
        projected = prices.projected(jobs) or 0
        if projected * 100 <= reservation.micro_usd * TOLERATED_PERCENT:
            return
        try:
            await self._reservations.grow(reservation, projected, force=not waits)
        except QuotaExceeded as exceeded:
            log.warning("job_changed_over_quota", job_id=reservation.job_id, reason=exceeded.detail)
            await self._cancel(ref, reservation.job_id)

    async def _count_account(
        self, ref: ClusterRef, reservation: Reservation, jobs: tuple[Job, ...], quotas: Iterable[Quota]
    ) -> None:
        """Count a job in the quota of the account that Slurm chose. One that waits must have room.

        A quota that was set after the submit refuses nothing.
        """
        further = of_account(quotas, reservation, jobs[0]) if jobs else ()
        if not further or (ref, reservation.job_id) in self._cancelled:
            return
        waits = any(job.state == "PENDING" for job in jobs)
        younger = any(quota.set_at > reservation.made_at for quota in further)
        try:
            await self._reservations.widen(reservation, further, force=younger or not waits)
        except QuotaExceeded as exceeded:
            log.warning("job_over_quota", job_id=reservation.job_id, user=reservation.user, reason=exceeded.detail)
            await self._cancel(ref, reservation.job_id)

    async def _reserve_others(
        self,
        ref: ClusterRef,
        prices: ListedPrices,
        quotas: Iterable[Quota],
        active: Active,
        reserved: ClusterReservations,
    ) -> None:
        """Reserve for jobs that did not come through the gateway, such as those of plain sbatch."""
        booked = {reservation.job_id for reservation in reserved.reservations} | reserved.unreadable
        lately = now() - timedelta(seconds=ANSWER_SECONDS)
        orphans = [each for each in reserved.reservations if not each.job_id]
        unanswered = {each.user for each in orphans if each.made_at > lately}
        for job_id, (job, *components) in active.items():
            # The job may be that of a submit which is being answered.
            if job_id in booked or (ref, job_id) in self._cancelled or job.user in unanswered:
                continue
            if not (counting := tuple(quota for quota in quotas if counts(quota, ref, job))):
                continue
            projected = prices.projected((job, *components))
            if await self._adopted(job, orphans, projected or 0):
                continue
            pending = PendingReservation(reservation_for(ref, job_id, job, counting, projected or 0), counting)
            refused = await self._refused(pending, bounded=projected is not None)
            if refused:
                log.warning("job_over_quota", job_id=job_id, user=job.user, reason=refused)
                await self._cancel(ref, job_id)

    async def _adopted(self, job: Job, orphans: list[Reservation], projected: int) -> bool:
        """Book a reservation of a submit whose answer was lost for the job that it probably made."""
        orphan = orphan_of(job, orphans, projected)
        if orphan is None:
            return False
        orphans.remove(orphan)
        return await self._reservations.adopt(orphan, job.het_job_id or job.job_id.partition("_")[0])

    async def _refused(self, pending: PendingReservation, *, bounded: bool) -> str:
        """Reserve, or return why not."""
        if not bounded and any(quota.mode != "warn" for quota in pending.quotas):
            return "its cost has no bound, because it has no time limit"
        try:
            await self._reservations.make(pending)
        except QuotaExceeded as exceeded:
            return exceeded.detail
        return ""

    async def _kill(self, ref: ClusterRef, quota: Quota, reserved: Iterable[Reservation], active: Active) -> None:
        """Cancel the newest jobs until the others fit. What an ended job had reserved is about to be released."""
        month = month_of(now())
        counted = [each for each in reserved if quota.scope in each.scopes and each.month == month and each.job_id]
        live = [each for each in counted if each.job_id in active and (ref, each.job_id) not in self._cancelled]
        over = await self._reservations.used(ref.tenant, month, quota.scope) - quota.ceiling_micro_usd
        over -= sum(each.micro_usd for each in counted) - sum(each.micro_usd for each in live)
        for reservation in sorted(live, key=lambda each: each.made_at, reverse=True):
            if over <= 0:
                return
            log.warning("job_killed_for_quota", job_id=reservation.job_id, quota=str(quota.scope))
            await self._cancel(ref, reservation.job_id)
            over -= reservation.micro_usd

    async def _cancel(self, ref: ClusterRef, job_id: JobId) -> None:
        try:
            await self._slurm.cancel(ref, ACTOR, job_id)
        except RpcFailed as failed:
            if failed.error.kind != "not_found":
                raise
        # The list of jobs may show it for another moment.
        self._cancelled[ref, job_id] = time.monotonic()
