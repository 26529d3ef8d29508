"""Settles reservations of jobs that have ended, reserves for jobs of plain sbatch, cancels what is over a quota.

Every replica does so, in any order: each step is one transaction that happens once.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from datetime import timedelta

import structlog
from clusterra_contracts.events import JOB_ENDS, Event
from clusterra_contracts.identity import ClusterRef, JobId, SlurmUser, now
from clusterra_contracts.job_states import LIVE
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_contracts.rpc.slurm_jobs import CancelTasks
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.store import StoreError
from clusterra_runtime.sweeps.agenda import Bounds, Place
from clusterra_runtime.sweeps.sweeper import Pace, Sweep, Sweeper

from clusterra_gateway.accounts.deactivated import deactivated_on
from clusterra_gateway.bus.requests import LedgerRequests, SlurmRequests
from clusterra_gateway.http.requests.errors import QuotaExceeded
from clusterra_gateway.money.quotas.jobs import (
    ListedPrices,
    LiveJob,
    as_at_submit,
    counts,
    job_pages,
    may_be_of,
    of_account,
    orphan_of,
    reservation_for,
    whole_id,
)
from clusterra_gateway.money.quotas.records import Quota, QuotaScope, Reservation, month_of
from clusterra_gateway.money.quotas.reservations import PendingReservation, Reservations
from clusterra_gateway.money.quotas.settling import Settling, Unanswered
from clusterra_gateway.money.quotas.slurm_limits import SlurmLimits
from clusterra_gateway.money.quotas.visit import Visit, is_dearer

log = structlog.get_logger()

INTERVAL_SECONDS = 5.0
LEAST_SHARE = 0.7
"""The part of the interval after which a cluster is visited without an event of its own. Others' events wake rounds,
too."""
SWEEP_SECONDS = 120.0
"""How long one visit to a cluster may take, with the pages of its lists and with requests that nobody answers."""
RESERVE_SECONDS = 5.0
"""How long one visit reserves for jobs. The next visit goes on: what is over a quota must not wait for all of them."""
CANCELS_AT_ONCE = 8
BOUNDS = Bounds(at_once=8)
NO_QUOTA_SECONDS = 15.0
"""How long a cluster without reservations is skipped while its tenant has no quotas.

So a tenant's first quota counts jobs of plain sbatch after this time at the latest, also those that wait already.
"""
ANSWER_SECONDS = 60.0
"""How long after a submit without an answer its user's new jobs are left alone: one may be that submit's."""
CANCEL_SECONDS = 120.0
"""How long a cancelled job is remembered. One that still runs then is cancelled again."""
ACTOR = Viewer(user=SlurmUser(name="clusterra-quota", uid=64_997, gid=64_997), admin=True)
"""Who cancels: the name stands in the job's history."""
CHANGED = "quota.changed"
WAKING: frozenset[str] = JOB_ENDS | {"job.submitted", CHANGED}

type LiveJobs = dict[JobId, LiveJob]
"""The jobs that wait or run, by the id of the submit."""


class QuotaSweep:
    """Visits each cluster of a tenant with quotas every few seconds, and at once when a job is submitted or ends."""

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
        self._changed: set[ClusterRef] = set()
        """The clusters of tenants one of whose quotas was changed after the last visit began."""
        self._asked: set[ClusterRef] = set()
        """The clusters of which an event has told something after the last visit began."""
        self._visited: dict[ClusterRef, float] = {}
        """When the last visit to a cluster began."""
        self._woken = asyncio.Event()

    def on_event(self, ref: ClusterRef, event: Event) -> None:
        """Visit soon. A visit under way is cut short for a changed quota, which may kill."""
        if event.kind == CHANGED:
            self._changed.add(ref)
            self._skip_until.pop(ref, None)
        if time.monotonic() >= self._skip_until.get(ref, 0.0):
            self._asked.add(ref)
            self._woken.set()

    def sweeper(self) -> Sweeper[ClusterRef]:
        """Visits the clusters that may have quotas, each once at a time."""
        failures = (StoreError, RpcFailed)
        sweep = Sweep(
            "quotas", self._listed, self._visit, lambda ref: Place(ref.tenant, ref.cluster), failures, self._woken
        )
        return Sweeper(sweep, Pace(INTERVAL_SECONDS, SWEEP_SECONDS), BOUNDS)

    async def _listed(self) -> list[ClusterRef]:
        self._asked &= self._registry.clusters.keys()
        self._visited = {ref: at for ref, at in self._visited.items() if ref in self._registry.clusters}
        at = time.monotonic()
        return [ref for ref in self._registry.clusters if ref in self._asked or self._is_due(ref, at)]

    def _is_due(self, ref: ClusterRef, at: float) -> bool:
        looked = self._visited.get(ref)
        return at >= self._skip_until.get(ref, 0.0) and (
            looked is None or at >= looked + LEAST_SHARE * INTERVAL_SECONDS
        )

    async def _visit(self, ref: ClusterRef) -> None:
        self._asked.discard(ref)
        self._visited[ref] = time.monotonic()
        binding = self._registry.get(ref)
        if binding is not None:
            await self.sweep(ref, binding)

    async def sweep(self, ref: ClusterRef, binding: ClusterBinding) -> None:
        """Visit one cluster once. Raises StoreError, RpcFailed."""
        self._changed.discard(ref)
        found = await self._reservations.quotas(ref.tenant)
        quotas = found.readable
        if binding.accounting_enforced:
            deactivated = await deactivated_on(self._reservations.store, ref.tenant, binding)
            # As at a submit, a quota that cannot be read allows nothing.
            used_up = [*await self._used_up(ref, quotas), *found.unreadable]
            await self._limits.keep(ref, binding, used_up, deactivated)
        if not quotas and not await self._reservations.any_of_cluster(ref):
            self._skip_until[ref] = time.monotonic() + NO_QUOTA_SECONDS
            return
        recent = time.monotonic() - CANCEL_SECONDS
        self._cancelled = {job: at for job, at in self._cancelled.items() if at > recent}
        prices = ListedPrices(binding.catalogue)
        # The jobs come first: one that is booked meanwhile is then among the reservations.
        live = await self._live(ref, prices)
        visit = Visit(live, quotas, now(), self._settling.last(ref))
        async for page in self._reservations.of_cluster(ref):
            visit.add(page, prices)
        await self._kill(ref, quotas, visit)
        await self._settling.settle(ref, visit.ended, quotas)
        await self._reserve(ref, prices, quotas, visit)
        await self._kill(ref, quotas, visit)

    async def _used_up(self, ref: ClusterRef, quotas: Iterable[Quota]) -> list[QuotaScope]:
        """The scopes of the quotas that block and have no room at all this month."""
        month = month_of(now())
        return [
            quota.scope
            for quota in quotas
            if quota.mode != "warn"
            and await self._reservations.used(ref.tenant, month, quota.scope) >= quota.ceiling_micro_usd
        ]

    async def _live(self, ref: ClusterRef, prices: ListedPrices) -> LiveJobs:
        found: LiveJobs = {}
        async for page in job_pages(self._slurm, ref, ACTOR, tuple(sorted(LIVE))):
            for job in page:
                found.setdefault(whole_id(job), LiveJob(job)).add(job, prices.asked(job))
        return found

    async def _reserve(self, ref: ClusterRef, prices: ListedPrices, quotas: Sequence[Quota], visit: Visit) -> None:
        """Reserve what is missing, for RESERVE_SECONDS or until a quota is changed."""
        until = time.monotonic() + RESERVE_SECONDS
        unanswered = Unanswered()
        lately = now() - timedelta(seconds=ANSWER_SECONDS)
        recent = (each for each in visit.orphans if each.made_at > lately)
        waiting = {each.user: each.made_at for each in sorted(recent, key=lambda each: each.made_at, reverse=True)}
        for reservation, job in visit.changed:
            with unanswered.noted(job.job_id):
                await self._reserve_more(ref, prices, reservation, job, visit)
                await self._count_account(ref, reservation, job, quotas)
            if time.monotonic() > until or ref in self._changed:
                return
        for job in visit.others():
            if (ref, job.job_id) in self._cancelled or may_be_of(job, waiting.get(job.user)):
                continue
            if not (counting := tuple(quota for quota in quotas if counts(quota, ref, job))):
                continue
            with unanswered.noted(job.job_id):
                await self._reserve_other(ref, prices, job, counting, visit)
            if time.monotonic() > until or ref in self._changed:
                return

    async def _reserve_more(
        self, ref: ClusterRef, prices: ListedPrices, reservation: Reservation, job: LiveJob, visit: Visit
    ) -> None:
        """Reserve more for a job that became dearer, such as by `scontrol update`. What waits must have room.

        What runs with more than it reserved, such as on the most of its nodes, is the newest there is: a quota that
        kills ends it, and none of those who reserved what they take.
        """
        projected = job.projected(prices) or 0
        if (ref, job.job_id) in self._cancelled or not is_dearer(reservation, projected):
            return
        grown_at = reservation.grown_at if job.waits else now()
        grown = reservation.model_copy(update={"micro_usd": projected, "grown_at": grown_at})
        try:
            done = await self._reservations.grow(reservation, projected, force=not job.waits, grown_at=grown_at)
        except QuotaExceeded as exceeded:
            await self._refuse(ref, job, exceeded.detail)
        else:
            if done:
                visit.count(grown, live=True)

    async def _count_account(
        self, ref: ClusterRef, reservation: Reservation, job: LiveJob, quotas: Iterable[Quota]
    ) -> None:
        """Count a job in the quota of the account that Slurm chose. What waits must have room."""
        further = as_at_submit(of_account(quotas, reservation, job), reservation.made_at)
        if not further or (ref, job.job_id) in self._cancelled:
            return
        try:
            await self._reservations.widen(reservation, further, force=not job.waits)
        except QuotaExceeded as exceeded:
            await self._refuse(ref, job, exceeded.detail)

    async def _reserve_other(
        self, ref: ClusterRef, prices: ListedPrices, job: LiveJob, counting: tuple[Quota, ...], visit: Visit
    ) -> None:
        """Reserve for a job that did not come through the gateway, such as one of plain sbatch."""
        projected = job.projected(prices)
        orphan = orphan_of(job, visit.orphans, projected or 0)
        if orphan is not None:
            visit.orphans.remove(orphan)
            if await self._reservations.adopt(orphan, job.job_id):
                return
        quotas = as_at_submit(counting, job.submitted_at)
        if job.waits:
            if not (refused := await self._refused(ref, job, quotas, projected)):
                return
            await self._refuse(ref, job, refused)
        if job.runs:
            # What runs is ended by no quota that only blocks. It counts, and a quota that kills has its turn.
            running = reservation_for(ref, job, quotas, job.projected(prices, waiting=False) or 0)
            await self._reservations.make(PendingReservation(running, quotas), force=True)
            visit.count(running, live=True)

    async def _refused(self, ref: ClusterRef, job: LiveJob, quotas: tuple[Quota, ...], projected: int | None) -> str:
        """Reserve, or return why not."""
        if projected is None and any(quota.mode != "warn" for quota in quotas):
            return "its cost has no bound, because it has no time limit"
        try:
            await self._reservations.make(PendingReservation(reservation_for(ref, job, quotas, projected or 0), quotas))
        except QuotaExceeded as exceeded:
            return exceeded.detail
        return ""

    async def _kill(self, ref: ClusterRef, quotas: Iterable[Quota], visit: Visit) -> None:
        """Cancel the newest jobs of each quota that kills, until the others fit."""
        month = month_of(now())
        for quota in quotas:
            if quota.mode != "block_and_kill":
                continue
            over = await self._reservations.used(ref.tenant, month, quota.scope) - quota.ceiling_micro_usd
            gone = (job_id for of, job_id in self._cancelled if of == ref)
            newest = visit.killed_for[quota.scope].beyond(over, gone)
            for at in range(0, len(newest), CANCELS_AT_ONCE):
                together = newest[at : at + CANCELS_AT_ONCE]
                log.warning("jobs_killed_for_quota", jobs=together, quota=str(quota.scope))
                await asyncio.gather(*(self._cancel(ref, job_id) for job_id in together))

    async def _refuse(self, ref: ClusterRef, job: LiveJob, reason: str) -> None:
        """Cancel what waits of a job, unless it has begun since the list was read."""
        log.warning("job_over_quota", job_id=job.job_id, user=job.user, reason=reason)
        if job.runs:
            for tasks in job.waiting_tasks():
                await self._slurm.change(ref, ACTOR, tasks, CancelTasks())
            self._cancelled[ref, job.job_id] = time.monotonic()
        elif (await self._slurm.job(ref, ACTOR, job.job_id)).state == "PENDING":
            await self._cancel(ref, job.job_id)

    async def _cancel(self, ref: ClusterRef, job_id: JobId) -> None:
        try:
            await self._slurm.cancel(ref, ACTOR, job_id)
        except RpcFailed as failed:
            if failed.error.kind != "not_found":
                raise
        # The list of jobs may show it for another moment.
        self._cancelled[ref, job_id] = time.monotonic()
