"""Reserves the projected cost of jobs atomically in all their quotas, and settles it when a job has ended.

What is used of a quota is one number: the real costs of jobs that have ended, and the projected costs of the others.
Each change of it is in the transaction with the reservation that causes it, so nothing is reserved or released twice.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import structlog
from clusterra_contracts.identity import ClusterRef, Moment
from clusterra_runtime.store.condition import Absent, Condition, Missing, Present, compare
from clusterra_runtime.store.item import Attributes, Item
from clusterra_runtime.store.store import (
    ConditionFailed,
    Delete,
    Put,
    Store,
    StoreError,
    TransactionCancelled,
    Update,
    Write,
)
from pydantic import ValidationError

from clusterra_gateway.accounts.keyspace import (
    ACCOUNTS,
    quota_use_key,
    quotas_partition,
    reservation_key,
    reservations_partition,
)
from clusterra_gateway.http.answers.responses import decimal
from clusterra_gateway.http.requests.errors import QuotaExceeded, Unavailable
from clusterra_gateway.money.quotas.records import Quota, Quotas, QuotaScope, Reservation

log = structlog.get_logger()

MAX_QUOTAS = 1000
"""The most quotas of one tenant."""
PAGE = 500
"""How many reservations are read at a time."""
USE_SECONDS = 400 * 86_400
RESERVATION_SECONDS = 60 * 86_400
"""After this time a reservation of a job that nobody settles expires."""
COMMITTED = "committed"
"""The attribute with what is used or reserved, in micro-USD."""


@dataclass(frozen=True)
class PendingReservation:
    """A reservation that is to be made, and the quotas that it counts in."""

    reservation: Reservation
    quotas: tuple[Quota, ...]
    more: bool = False
    """Whether this is the additional cost of a job that has a reservation already."""

    @property
    def ref(self) -> ClusterRef:
        """The cluster of its job."""
        return ClusterRef(tenant=self.reservation.tenant, cluster=self.reservation.cluster)

    def writes(self, *, force: bool = False) -> list[Write]:
        """The writes that make the reservation: it first, then one for each quota. `force`: whatever is left."""
        expires_at = int(self.reservation.made_at.timestamp())
        kept = Put(
            ACCOUNTS,
            reservation_key(self.ref, self.reservation.id),
            self.reservation.attributes(),
            Absent(),
            expires_at + RESERVATION_SECONDS,
        )
        return [kept, *(self._use(quota, expires_at + USE_SECONDS, force=force) for quota in self.quotas)]

    def refusal(self, failed: Sequence[ConditionFailed | None]) -> QuotaExceeded:
        """The error for writes of `writes` whose conditions failed."""
        (quota, found) = next(
            (quota, each) for quota, each in zip(self.quotas, failed[1:], strict=True) if each is not None
        )
        left = max(0, quota.ceiling_micro_usd - _committed(found.current))
        return QuotaExceeded(
            f"the job may cost {decimal(self.reservation.micro_usd)} USD{' more' if self.more else ''}, and "
            f"{decimal(left)} USD are left of the quota of the {quota.scope.kind} {quota.scope.name} for "
            f"{self.reservation.month}",
            hint="wait until jobs end, ask for less time or fewer resources, or ask an admin for a higher quota",
        )

    def _use(self, quota: Quota, expires_at: int, *, force: bool) -> Update:
        amount = self.reservation.micro_usd
        fits: Condition | None = None
        if quota.mode != "warn" and not force:
            left = quota.ceiling_micro_usd - amount
            fits = compare(COMMITTED, "<=", left)
            if left >= 0:
                fits = Missing(COMMITTED) | fits
        key = quota_use_key(self.reservation.tenant, self.reservation.month, str(quota.scope))
        return Update(ACCOUNTS, key, add={COMMITTED: amount}, condition=fits, expires_at=expires_at)


class AlreadyReserved(Exception):
    """There is a reservation under this id already. `item` is None if it has just expired."""

    def __init__(self, item: Item | None) -> None:
        super().__init__()
        self.item = item


class ClusterReservations(NamedTuple):
    """A page of what is reserved for the jobs of a cluster."""

    reservations: tuple[Reservation, ...]
    unreadable: frozenset[str]
    """The jobs whose reservation cannot be read."""


class Reservations:
    """The reservations of all clusters. All methods raise StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def quotas(self, tenant: str) -> Quotas:
        """All quotas of a tenant. Those that cannot be read are logged."""
        page = await self.store.query(ACCOUNTS, quotas_partition(tenant), limit=MAX_QUOTAS)
        read = [(item, Quota.readable(item)) for item in page.items]
        unreadable = (_scope_of(item) for item, quota in read if quota is None)
        return Quotas(
            tuple(quota for _, quota in read if quota is not None),
            tuple(scope for scope in unreadable if scope is not None),
        )

    async def used(self, tenant: str, month: str, scope: QuotaScope) -> int:
        """What is used or reserved of a quota."""
        return _committed(await self.store.get(ACCOUNTS, quota_use_key(tenant, month, str(scope))))

    async def make(self, pending: PendingReservation, *, force: bool = False) -> None:
        """Reserve, if it is not reserved yet. Raises QuotaExceeded."""
        try:
            await self.store.transact(pending.writes(force=force), token=uuid.uuid4().hex)
        except TransactionCancelled as cancelled:
            if cancelled.reasons[0] is None:
                raise pending.refusal(cancelled.reasons) from cancelled

    async def make_room(self, pending: PendingReservation, taken: AlreadyReserved) -> PendingReservation:
        """The same pending reservation under another id. What is reserved under its own for no job is released."""
        found = None if taken.item is None else Reservation.readable(taken.item)
        if found is not None and not found.job_id:
            await self.settle(found, 0)
        return replace(pending, reservation=pending.reservation.model_copy(update={"id": uuid.uuid4().hex}))

    async def grow(
        self, reservation: Reservation, micro_usd: int, *, force: bool = False, grown_at: Moment | None = None
    ) -> bool:
        """Reserve `micro_usd` in place of what is reserved. `force`: whatever is left. `grown_at` is then noted.

        False when the reservation is no longer the one that was read. Raises QuotaExceeded. In both cases nothing has
        changed.
        """
        quotas = {quota.scope: quota for quota in (await self.quotas(reservation.tenant)).readable}
        more = reservation.model_copy(update={"micro_usd": micro_usd - reservation.micro_usd})
        # A scope whose quota was removed keeps its account of what is used.
        counting = tuple(quotas.get(scope) or _no_quota(scope, reservation) for scope in reservation.scopes)
        growth = PendingReservation(more, counting, more=True)
        changes = {"micro_usd"} if grown_at is None else {"micro_usd", "grown_at"}
        grown = reservation.model_copy(update={"micro_usd": micro_usd, "grown_at": grown_at}).attributes()
        return await self._changed(reservation, {each: grown[each] for each in changes}, growth, force=force)

    async def widen(self, reservation: Reservation, quotas: tuple[Quota, ...], *, force: bool = False) -> Reservation:
        """Count a job in further quotas. Returns what is reserved then. `force`: whatever is left.

        Where the reservation is no longer the one that was read, it is returned as it was, and nothing has changed.
        Raises QuotaExceeded.
        """
        further = PendingReservation(reservation, quotas)
        wider = reservation.model_copy(update={"scopes": (*reservation.scopes, *(quota.scope for quota in quotas))})
        changes = {"scopes": wider.attributes()["scopes"]}
        return wider if await self._changed(reservation, changes, further, force=force) else reservation

    async def adopt(self, reservation: Reservation, job_id: str) -> bool:
        """Note which job a reservation without one is for. False where it has one meanwhile, or is settled."""
        ref = ClusterRef(tenant=reservation.tenant, cluster=reservation.cluster)
        unbooked = _unchanged(reservation) & compare("job_id", "==", "")
        key = reservation_key(ref, reservation.id)
        try:
            await self.store.write(Update(ACCOUNTS, key, set={"job_id": job_id}, condition=unbooked))
        except ConditionFailed:
            return False
        log.info("reservation_adopted", job_id=job_id)
        return True

    async def book(self, pending: PendingReservation, job_id: str) -> None:
        """Note which job the reservation is for, unless it has one. Where that is lost, the sweep finds the job."""
        free = compare("job_id", "==", "") | compare("job_id", "==", job_id)
        key = reservation_key(pending.ref, pending.reservation.id)
        try:
            await self.store.write(Update(ACCOUNTS, key, set={"job_id": job_id}, condition=Present() & free))
        except ConditionFailed:
            log.info("reservation_gone", job_id=job_id)
        except StoreError as error:
            # Slurm has the job: its submit must not fail any more.
            log.warning("reservation_not_booked", job_id=job_id, reason=str(error))

    async def settle(self, reservation: Reservation, micro_usd: int) -> None:
        """Replace what is reserved by the real cost. 0 releases it.

        Nothing happens once it is settled, or where it has been changed since it was read.
        """
        ref = ClusterRef(tenant=reservation.tenant, cluster=reservation.cluster)
        difference = micro_usd - reservation.micro_usd
        writes: list[Write] = [Delete(ACCOUNTS, reservation_key(ref, reservation.id), _unchanged(reservation))]
        writes += [
            Update(
                ACCOUNTS, quota_use_key(reservation.tenant, reservation.month, str(scope)), add={COMMITTED: difference}
            )
            for scope in reservation.scopes
        ]
        try:
            await self.store.transact(writes, token=uuid.uuid4().hex)
        except TransactionCancelled:
            log.info("reservation_settled_before", reservation=reservation.id)

    async def any_of_cluster(self, ref: ClusterRef) -> bool:
        """Whether anything is reserved for jobs of a cluster."""
        return bool((await self.store.query(ACCOUNTS, reservations_partition(ref), limit=1)).items)

    async def of_cluster(self, ref: ClusterRef) -> AsyncIterator[ClusterReservations]:
        """The reservations for jobs of a cluster that have not been settled: all, page by page, in the order of ids.

        Those that cannot be read are logged. Only after the last page nothing is reserved for any other job.
        """
        cursor = None
        while True:
            page = await self.store.query(ACCOUNTS, reservations_partition(ref), limit=PAGE, cursor=cursor)
            yield await asyncio.to_thread(_read, page.items)  # they may be hundreds
            if (cursor := page.cursor) is None:
                return

    async def of_job(self, ref: ClusterRef, job_id: str) -> Reservation | None:
        """The reservation of a job. Raises Unavailable where it cannot be read."""
        async for page in self.of_cluster(ref):
            if job_id in page.unreadable:
                raise Unavailable("what is reserved for this job cannot be read", hint="contact the operators")
            if found := next((each for each in page.reservations if each.job_id == job_id), None):
                return found
        return None

    async def _changed(
        self, reservation: Reservation, changes: Attributes, pending: PendingReservation, *, force: bool
    ) -> bool:
        """Change a reservation, and count in the same transaction what the pending reservation adds to quotas.

        False where it is no longer the one that was read. Raises QuotaExceeded.
        """
        key = reservation_key(pending.ref, reservation.id)
        kept = Update(ACCOUNTS, key, set=changes, condition=_unchanged(reservation))
        try:
            await self.store.transact([kept, *pending.writes(force=force)[1:]], token=uuid.uuid4().hex)
        except TransactionCancelled as cancelled:
            if cancelled.reasons[0] is None:
                raise pending.refusal(cancelled.reasons) from cancelled
            return False
        return True


def _read(items: Iterable[Item]) -> ClusterReservations:
    read = [(item, Reservation.readable(item)) for item in items]
    unreadable = (item.attributes.get("job_id") for item, reservation in read if reservation is None)
    return ClusterReservations(
        tuple(reservation for _, reservation in read if reservation is not None),
        frozenset(job_id for job_id in unreadable if isinstance(job_id, str) and job_id),
    )


def _unchanged(reservation: Reservation) -> Condition:
    """Whether it is the reservation that was read: as much, in the same quotas, and not made anew under its id."""
    stored = reservation.attributes()
    return (
        compare("micro_usd", "==", stored["micro_usd"])
        & compare("scopes", "==", stored["scopes"])
        & compare("made_at", "==", stored["made_at"])
    )


def _scope_of(item: Item) -> QuotaScope | None:
    kind, _, name = item.key.sk.partition("#")
    try:
        return QuotaScope.model_validate({"kind": kind, "name": name})
    except ValidationError:
        return None


def _no_quota(scope: QuotaScope, reservation: Reservation) -> Quota:
    return Quota(scope=scope, limit_micro_usd=0, mode="warn", buffer_percent=0, set_by="", set_at=reservation.made_at)


def _committed(item: Item | None) -> int:
    value = 0 if item is None else item.attributes.get(COMMITTED, 0)
    return value if isinstance(value, int) else 0
