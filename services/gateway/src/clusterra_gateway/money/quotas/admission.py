"""Whether a submit or an update of a job fits into the quotas, and what is left of them."""

import asyncio
import hashlib
import uuid
from typing import NamedTuple, Self

from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.job_price import Expected, JobPrices
from clusterra_contracts.rpc.estimate import Prepare
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_contracts.rpc.slurm_jobs import Update
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.optimistic_write import Overtaken, write_optimistically
from pydantic import BaseModel, ConfigDict

from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_gateway.http.answers.responses import Money, decimal
from clusterra_gateway.http.requests.errors import ConfirmationRequired, InvalidRequest, Unavailable
from clusterra_gateway.money.quotas.jobs import ListedPrices, changed_by
from clusterra_gateway.money.quotas.records import Mode, Quota, QuotaScope, Reservation, ScopeKind, month_of
from clusterra_gateway.money.quotas.reservations import PendingReservation, Reservations


class QuotaLeft(BaseModel):
    """What is left of a quota after a submit."""

    model_config = ConfigDict(frozen=True)

    kind: ScopeKind
    name: str
    mode: Mode
    limit: Money
    left: Money
    """Of the limit, after what is used and reserved; negative beyond it."""


class ExpectedCost(BaseModel):
    """What a job is expected to cost, on the cheapest workers that could run it."""

    model_config = ConfigDict(frozen=True)

    usd_per_hour: Money
    """While all of its tasks run that may run at once."""
    total: Money | None
    """Of all its tasks for its whole time limit; null without one."""
    shapes: tuple[str, ...]
    """The shapes of its workers."""

    @classmethod
    def of(cls, expected: Expected) -> Self:
        """As an answer has it."""
        total = None if expected.total is None else Money.of(expected.total)
        return cls(usd_per_hour=Money.of(expected.per_hour), total=total, shapes=expected.shapes)


class Admitted(NamedTuple):
    """What a submit reserves, and what its job is expected to cost. Both are None where nobody has to know the cost."""

    pending: PendingReservation | None = None
    expected: ExpectedCost | None = None


class Admission:
    """Projects the cost of submits: makes their pending reservations, and refuses what nobody has confirmed."""

    def __init__(self, reservations: Reservations, slurm: SlurmRequests, registry: Registry) -> None:
        self.reservations = reservations
        self._slurm = slurm
        self._registry = registry

    async def admitted(
        self, ref: ClusterRef, request: Prepare, identity: str | None, confirmed: float | None
    ) -> Admitted:
        """What a submit reserves and costs. `identity` is the same for each repetition; `confirmed`: USD per hour.

        Raises InvalidRequest for a job whose cost has no bound although a quota blocks, ConfirmationRequired,
        Unavailable for a quota of it that cannot be read, and RpcFailed.
        """
        scopes = {QuotaScope(kind="user", name=request.user.name), QuotaScope(kind="tenant", name=ref.tenant)}
        if request.job.account:
            scopes.add(QuotaScope(kind="account", name=request.job.account))
        quotas = (await self.reservations.quotas(ref.tenant)).counting(scopes)
        binding = self._registry.get(ref)
        if binding is None or not (quotas or binding.policy.max_usd_per_hour_without_confirmation is not None):
            return Admitted()
        prepared = await self._slurm.prepare(ref, request)
        jobs = ((prepared.job, prepared.tasks), *((component, 1) for component in prepared.components))
        expected = JobPrices(binding.catalogue).expected(jobs)
        if expected is not None:
            check_confirmed(expected, binding.policy.max_usd_per_hour_without_confirmation, confirmed)
        cost = None if expected is None else ExpectedCost.of(expected)
        if not quotas:
            return Admitted(None, cost)
        projected = None if expected is None else expected.total
        if projected is None and any(quota.mode != "warn" for quota in quotas):
            raise InvalidRequest(
                "a quota applies to this job, and its cost has no bound",
                hint="give it a time limit, such as #SBATCH --time=01:00:00, and resources that some worker has",
            )
        at = now()
        reservation = Reservation(
            id=uuid.uuid4().hex if identity is None else hashlib.sha256(identity.encode()).hexdigest()[:32],
            tenant=ref.tenant,
            cluster=ref.cluster,
            month=month_of(at),
            scopes=tuple(quota.scope for quota in quotas),
            micro_usd=projected or 0,
            user=request.user.name,
            made_at=at,
        )
        return Admitted(PendingReservation(reservation, quotas), cost)

    async def left(self, pending: PendingReservation) -> tuple[QuotaLeft, ...]:
        """What is left of each quota of a pending reservation."""
        return tuple(await asyncio.gather(*(self._left(pending.reservation, quota) for quota in pending.quotas)))

    async def _left(self, reservation: Reservation, quota: Quota) -> QuotaLeft:
        used = await self.reservations.used(reservation.tenant, reservation.month, quota.scope)
        return QuotaLeft(
            kind=quota.scope.kind,
            name=quota.scope.name,
            mode=quota.mode,
            limit=Money.of(quota.limit_micro_usd),
            left=Money.of(quota.limit_micro_usd - used),
        )


def check_confirmed(expected: Expected, most: float | None, confirmed: float | None) -> None:
    """Raises ConfirmationRequired for a job that is dearer than `most` and than what was confirmed, USD per hour."""
    # Not the other way round: what 2.000001 USD are in micro-USD is not exact.
    if most is None or expected.per_hour / 1_000_000 <= max(most, confirmed or 0.0):
        return
    per_hour, shapes = decimal(expected.per_hour), ", ".join(expected.shapes)
    raise ConfirmationRequired(
        f"the job is expected to cost {per_hour} USD per hour on {shapes}, and this cluster asks for a confirmation of "
        f"more than {most:g} USD per hour",
        hint=f'send it again with "confirmed_usd_per_hour": {per_hour} in `job`, or beside `params` for a template, or '
        "ask for fewer resources",
    )


def over_limit(left: tuple[QuotaLeft, ...]) -> tuple[str, ...]:
    """A warning for each quota whose limit is passed."""
    return tuple(
        f"the quota of the {each.kind} {each.name} is passed by {each.left.amount.removeprefix('-')} USD"
        for each in left
        if each.left.amount.startswith("-")
    )


_COSTLY = frozenset({"memory_per_node", "memory_per_cpu", "tasks", "constraints"})
"""The fields of `FurtherChanges` on which the cost of a job depends."""


class PricedUpdates:
    """Updates jobs within the quotas. A job that came past the gateway is counted by the sweep, after the change."""

    def __init__(self, reservations: Reservations, slurm: SlurmRequests, registry: Registry) -> None:
        self._reservations = reservations
        self._slurm = slurm
        self._registry = registry

    async def update(self, ref: ClusterRef, viewer: Viewer, jobs: str, update: Update) -> None:
        """Change a job, and reserve before it what it may cost more, or release after it what it costs less.

        Raises QuotaExceeded, RpcFailed, and Unavailable where others change the same job all the time or a quota cannot
        be read.
        """
        change = await self._reserve(ref, viewer, jobs, update) if _is_costly(update) else None
        try:
            await self._slurm.change(ref, viewer, jobs, update)
        except RpcFailed as failed:
            if change is not None and change[1].micro_usd > change[0].micro_usd and not failed.error.may_have_effect:
                before, grown = change
                await self._reservations.grow(grown, before.micro_usd, force=True)
            raise
        if change is not None and change[1].micro_usd < change[0].micro_usd:
            before, less = change
            await self._reservations.grow(before, less.micro_usd, force=True)

    async def _reserve(
        self, ref: ClusterRef, viewer: Viewer, jobs: str, update: Update
    ) -> tuple[Reservation, Reservation] | None:
        """The reservation before and after; None where the cost stays, or no quota counts the job.

        More is reserved here. Less is not released yet, and only where the change is that of a whole job.
        """
        binding = self._registry.get(ref)
        quotas = await self._reservations.quotas(ref.tenant)
        if binding is None or not (quotas.readable or quotas.unreadable):
            return None

        async def attempt() -> tuple[Reservation, Reservation] | None:
            job = await self._slurm.job(ref, viewer, jobs.partition("_")[0])
            prices = ListedPrices(binding.catalogue)
            now, then = (prices.projected((each,)) or 0 for each in (job, changed_by(job, update)))
            if then == now or (then < now and ("_" in jobs or not then)):
                return None
            if (before := await self._reservations.of_job(ref, job.het_job_id or job.job_id)) is None:
                return None
            if then < now:
                return before, before.model_copy(update={"micro_usd": max(before.micro_usd + then - now, then)})
            quotas.counting(before.scopes)
            grown = before.model_copy(update={"micro_usd": before.micro_usd + then - now})
            if not await self._reservations.grow(before, grown.micro_usd):
                raise Overtaken("the reservation of this job was changed")
            return before, grown

        contended = Unavailable("others change this job at the same time", hint="try again in a moment")
        return await write_optimistically(attempt, contended=contended)


def _is_costly(update: Update) -> bool:
    return update.changes.time_limit is not None or any(
        value is not None for name, value in update.further if name in _COSTLY
    )
