"""Settles reservations of jobs that have ended: what a job really cost takes the place of what it may cost."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import structlog
from clusterra_contracts.identity import ClusterRef, JobId, now
from clusterra_contracts.rpc.slurm import Job, Viewer
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.bus.requests import LedgerRequests, SlurmRequests
from clusterra_gateway.money.quotas.jobs import UNANSWERED_SECONDS, of_account
from clusterra_gateway.money.quotas.records import Quota, Reservation
from clusterra_gateway.money.quotas.reservations import Reservations

log = structlog.get_logger()

SETTLE_SECONDS = 2.5
"""How long one visit to a cluster settles. The next visit goes on with the next reservation.

Each takes some milliseconds; on a busy cluster seconds, and what is over a quota must not wait for all of them.
"""
LEDGER_SECONDS = 600.0
"""How long the ledger may take to learn of a job's end. Then the projected cost stays."""
MAX_SILENT = 2
"""How many requests about jobs of a cluster may stay unanswered before its other jobs wait for the next visit."""


class Unanswered:
    """Counts what Slurm and the ledger did not answer in one visit to a cluster."""

    def __init__(self) -> None:
        self._silent = 0

    @contextmanager
    def noted(self, job_id: JobId) -> Iterator[None]:
        """Log a request about a job that fails. Raises RpcFailed once MAX_SILENT have stayed unanswered."""
        try:
            yield
        except RpcFailed as failed:
            # Nobody may be able to read this one. Where Slurm or the ledger is silent, each would take seconds.
            self._silent += failed.error.kind == "unavailable" and not failed.error.internal
            if self._silent > MAX_SILENT:
                raise
            log.warning("reservation_not_looked_at", job_id=job_id, reason=failed.error.detail)


class Settling:
    """Settles reservations of clusters, each cluster's in turn. `actor` asks Slurm and the ledger."""

    def __init__(self, reservations: Reservations, slurm: SlurmRequests, ledger: LedgerRequests, actor: Viewer) -> None:
        self._reservations = reservations
        self._slurm = slurm
        self._ledger = ledger
        self._actor = actor
        self._last: dict[ClusterRef, str] = {}
        """The reservation that was looked at last, where the time was not enough for all."""

    def last(self, ref: ClusterRef) -> str:
        """The reservation that the last visit to a cluster settled last; empty if it settled all that it could."""
        return self._last.get(ref, "")

    async def settle(self, ref: ClusterRef, ended: Iterable[Reservation], quotas: Sequence[Quota]) -> None:
        """Settle what can be settled, for SETTLE_SECONDS or until too much stays unanswered. Raises StoreError.

        `ended` is in turn: those behind `last` first.
        """
        self._last.pop(ref, None)
        until = time.monotonic() + SETTLE_SECONDS
        unanswered = Unanswered()
        for reservation in ended:
            try:
                with unanswered.noted(reservation.job_id):
                    await self._settle(ref, reservation, quotas)
            except RpcFailed as failed:
                log.warning(
                    "reservations_settle_later", tenant=ref.tenant, cluster=ref.cluster, reason=failed.error.detail
                )
                self._last[ref] = reservation.id
                return
            if time.monotonic() > until:
                self._last[ref] = reservation.id
                return

    async def _settle(self, ref: ClusterRef, reservation: Reservation, quotas: Sequence[Quota]) -> None:
        if not reservation.job_id:
            if now() - reservation.made_at > timedelta(seconds=UNANSWERED_SECONDS):
                await self._reservations.settle(reservation, 0)
            return
        try:
            job = await self._slurm.job(ref, self._actor, reservation.job_id)
        except RpcFailed as failed:
            if failed.error.kind != "not_found":
                raise
            if now() - reservation.made_at >= timedelta(seconds=UNANSWERED_SECONDS):
                await self._reservations.settle(reservation, 0)
            return
        cost = await self._final_cost(ref, reservation, job)
        if cost is not None:
            further = of_account(quotas, reservation, job)
            counted = await self._reservations.widen(reservation, further, force=True) if further else reservation
            await self._reservations.settle(counted, cost)

    async def _final_cost(self, ref: ClusterRef, reservation: Reservation, job: Job) -> int | None:
        """What a job really cost; None while it has not ended, or the ledger does not know it yet."""
        if job.ended_at is None:
            return None
        costs = [await self._ledger.job(ref, self._actor, each) for each in job.het_components or (reservation.job_id,)]
        missing = any(cost.runs == 0 for cost in costs) and job.started_at is not None
        incomplete = missing or any(cost.open_runs > 0 for cost in costs)
        known = [cost.micro_usd for cost in costs if cost.micro_usd is not None and not cost.unknown]
        if not incomplete and len(known) == len(costs):
            return sum(known)
        return reservation.micro_usd if now() - job.ended_at > timedelta(seconds=LEDGER_SECONDS) else None
