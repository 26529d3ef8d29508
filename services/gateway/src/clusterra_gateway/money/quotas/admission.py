"""Whether a submit fits into the quotas, and what is left of them."""

import asyncio
import hashlib
import uuid

from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.job_price import JobPrices
from clusterra_contracts.rpc.estimate import Prepare
from clusterra_runtime.nats.registry import Registry
from pydantic import BaseModel, ConfigDict

from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_gateway.http.answers.money import Money, decimal
from clusterra_gateway.http.requests.errors import InvalidRequest
from clusterra_gateway.money.quotas.known_quotas import KnownQuotas
from clusterra_gateway.money.quotas.records import Mode, Quota, QuotaScope, Reservation, ScopeKind
from clusterra_gateway.money.quotas.reservations import PendingReservation, Reservations, month_of


class QuotaLeft(BaseModel):
    """What is left of a quota after a submit."""

    model_config = ConfigDict(frozen=True)

    kind: ScopeKind
    name: str
    mode: Mode
    limit: Money
    left: Money
    """Of the limit, after what is used and reserved; negative beyond it."""


class Admission:
    """Makes the pending reservations of submits."""

    def __init__(
        self, reservations: Reservations, known: KnownQuotas, slurm: SlurmRequests, registry: Registry
    ) -> None:
        self.reservations = reservations
        self._known = known
        self._slurm = slurm
        self._registry = registry

    async def pending_reservation(
        self, ref: ClusterRef, request: Prepare, identity: str | None
    ) -> PendingReservation | None:
        """What a submit reserves; None where no quota counts it. `identity` is the same for each repetition.

        Raises InvalidRequest for a job whose cost has no bound although a quota blocks, Unavailable for a quota of it
        that cannot be read, and RpcFailed.
        """
        scopes = {QuotaScope(kind="user", name=request.user.name), QuotaScope(kind="tenant", name=ref.tenant)}
        if request.job.account:
            scopes.add(QuotaScope(kind="account", name=request.job.account))
        quotas = (await self._known.of(ref.tenant)).counting(scopes)
        binding = self._registry.get(ref)
        if not quotas or binding is None:
            return None
        prepared = await self._slurm.prepare(ref, request)
        jobs = ((prepared.job, prepared.tasks), *((component, 1) for component in prepared.components))
        projected = JobPrices(binding.catalogue).micro_usd_together(jobs)
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
        return PendingReservation(reservation, quotas)

    async def left(self, pending: PendingReservation) -> tuple[QuotaLeft, ...]:
        """What is left of each quota of a pending reservation."""
        return tuple(await asyncio.gather(*(self._left(pending.reservation, quota) for quota in pending.quotas)))

    async def _left(self, reservation: Reservation, quota: Quota) -> QuotaLeft:
        used = await self.reservations.used(reservation.tenant, reservation.month, quota.scope)
        return QuotaLeft(
            kind=quota.scope.kind,
            name=quota.scope.name,
            mode=quota.mode,
            limit=Money(amount=decimal(quota.limit_micro_usd)),
            left=Money(amount=decimal(quota.limit_micro_usd - used)),
        )


def over_limit(left: tuple[QuotaLeft, ...]) -> tuple[str, ...]:
    """A warning for each quota whose limit is passed."""
    return tuple(
        f"the quota of the {each.kind} {each.name} is passed by {each.left.amount.removeprefix('-')} USD"
        for each in left
        if each.left.amount.startswith("-")
    )
