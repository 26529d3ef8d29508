"""Stores the claims of idempotency keys, each changed by conditional writes only."""

import uuid
from dataclasses import dataclass

from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.slurm import Submitted
from clusterra_runtime.store.condition import Absent, Missing, VersionIs, compare
from clusterra_runtime.store.item import Attributes, Item, Key
from clusterra_runtime.store.store import ConditionFailed, Delete, Put, Store, TransactionCancelled, Update

from clusterra_gateway.idempotency.key import IDEMPOTENCY, KEEP_SECONDS
from clusterra_gateway.jobs.claim import Claim
from clusterra_gateway.money.quotas.reservations import Hold


@dataclass(frozen=True)
class ScopedKey:
    """A client's key. It is valid for one person on one cluster."""

    ref: ClusterRef
    member: str
    key: str

    @property
    def item(self) -> Key:
        """The key of its item."""
        return Key(f"{self.ref.key}#{self.member}#{self.key}", "submit")


@dataclass(frozen=True)
class StoredClaim:
    """A claim at a version of its item."""

    claim: Claim
    version: int


class IdempotencyKeys:
    """The claims of all keys. Of several writers at the same time exactly one succeeds. All raise StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def claim(
        self, key: ScopedKey, request: str, at: float, hold: Hold | None = None
    ) -> tuple[StoredClaim, bool]:
        """Claim a key, and with it make the reservation of its job. Returns its claim, and whether it is a new one.

        Raises QuotaExceeded: then nothing is claimed.
        """
        owner = uuid.uuid4().hex
        mine = Claim.first(request, owner, at)
        put = Put(IDEMPOTENCY, key.item, _attributes(mine), Absent(), _expiry(at))
        try:
            if hold is not None:
                await self._store.transact([put, *hold.writes()], token=owner)
                return StoredClaim(mine, put.version), True
            return _stored(await self._store.write(put)), True
        except TransactionCancelled as cancelled:
            assert hold is not None  # noqa: S101 - only its transaction is cancelled
            first, *others = cancelled.reasons
            if first is None:
                raise hold.refusal(others) from cancelled
            if first.current is None:
                return await self.claim(key, request, at, hold)
            return _stored(first.current), False
        except ConditionFailed as taken:
            if taken.current is None:
                return await self.claim(key, request, at)  # the key expired in the meantime
            found = _stored(taken.current)
            # The store repeats a write whose answer was lost, and then finds its own claim.
            return found, found.claim.owner == owner

    async def claim_again(self, key: ScopedKey, before: StoredClaim, at: float) -> StoredClaim | None:
        """Claim a settled key for another attempt. None when another request was faster."""
        return await self.replace(key, before, before.claim.again(uuid.uuid4().hex, at), expires_at=_expiry(at))

    async def replace(
        self, key: ScopedKey, before: StoredClaim, claim: Claim, *, expires_at: int | None = None
    ) -> StoredClaim | None:
        """Write a claim unless it was changed in the meantime; then None."""
        changed = {name: value for name, value in _attributes(claim).items() if name != "answer"}
        update = Update(IDEMPOTENCY, key.item, set=changed, condition=VersionIs(before.version), expires_at=expires_at)
        try:
            return _stored(await self._store.write(update))
        except ConditionFailed as failed:
            found = None if failed.current is None else _stored(failed.current)
            return found if found is not None and found.claim == claim else None

    async def complete(self, key: ScopedKey, request: str, answer: Submitted) -> None:
        """Store the answer, for when the request is sent again. The first answer stays."""
        same = compare("request", "==", request) & Missing("answer")
        answered = {"answer": answer.model_dump_json()}
        try:
            await self._store.write(Update(IDEMPOTENCY, key.item, set=answered, condition=same))
        except ConditionFailed:
            return  # another request stored it, or the key has expired

    async def release(self, key: ScopedKey, claim: StoredClaim) -> None:
        """Make the key usable for other requests, unless its claim was changed in the meantime."""
        try:
            await self._store.delete(Delete(IDEMPOTENCY, key.item, VersionIs(claim.version)))
        except ConditionFailed:
            return


def _expiry(at: float) -> int:
    return int(at) + KEEP_SECONDS


def _attributes(claim: Claim) -> Attributes:
    return {
        "request": claim.request,
        "owner": claim.owner,
        "claimed_at": claim.claimed_at,
        "sent_at": claim.sent_at,
        "settled_at": claim.settled_at,
        "ended": claim.ended,
    }


def _stored(item: Item) -> StoredClaim:
    found = item.attributes
    answer = found.get("answer")
    # An item of an earlier release has only its request and its answer, and expires a day after it was written.
    written_at = float((item.expires_at or KEEP_SECONDS) - KEEP_SECONDS)
    first = Claim.first(
        str(found["request"]), str(found.get("owner", "")), _number(found.get("claimed_at"), written_at)
    )
    claim = Claim(
        first.request,
        first.owner,
        first.claimed_at,
        sent_at=_number(found.get("sent_at"), first.sent_at),
        settled_at=_number(found.get("settled_at"), first.settled_at),
        ended=bool(found.get("ended", False)),
        answer=None if answer is None else Submitted.model_validate_json(str(answer)),
    )
    return StoredClaim(claim, item.version)


def _number(value: object, default: float) -> float:
    return float(value) if isinstance(value, int | float) else default
