"""Stores the claims of submits, as items of `idempotency.claims`."""

import uuid
from dataclasses import dataclass

from clusterra_contracts.rpc.slurm import Submitted
from clusterra_runtime.store.item import Attributes, Item
from clusterra_runtime.store.store import Store, TransactionCancelled

from clusterra_gateway.idempotency.claims import OWNER, REQUEST, Claims, expiry
from clusterra_gateway.idempotency.key import KEEP_SECONDS, ScopedKey
from clusterra_gateway.money.quotas.reservations import AlreadyReserved, PendingReservation
from clusterra_gateway.submits.claim import Claim

ANSWER = "answer"
"""The attribute with the answer of Slurm."""


@dataclass(frozen=True)
class StoredClaim:
    """A claim at a version of its item."""

    claim: Claim
    version: int


class SubmitKeys:
    """The keys of submits. Of several writers at the same time exactly one succeeds. All raise StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._claims = Claims(store)

    async def claim(
        self, key: ScopedKey, request: str, at: float, pending: PendingReservation | None = None
    ) -> tuple[StoredClaim, bool]:
        """Claim a key, and with it make the reservation of its job. Returns its claim, and whether it is a new one.

        Raises QuotaExceeded and AlreadyReserved: then nothing is claimed. Raises InFlight.
        """
        place, mine = key.place("submit"), _attributes(Claim.first(request, uuid.uuid4().hex, at))
        beside = () if pending is None else pending.writes()
        try:
            found, is_new = await self._claims.claim(place, mine, at, beside)
        except TransactionCancelled as cancelled:
            assert pending is not None  # noqa: S101 - only its writes are beside the claim
            if (taken := cancelled.reasons[1]) is not None:
                raise AlreadyReserved(taken.current) from cancelled
            raise pending.refusal(cancelled.reasons[1:]) from cancelled
        return _stored(found), is_new

    async def claim_again(self, key: ScopedKey, before: StoredClaim, at: float) -> StoredClaim | None:
        """Claim a settled key for another attempt. None when another request was faster."""
        return await self.replace(key, before, before.claim.again(uuid.uuid4().hex, at), expires_at=expiry(at))

    async def replace(
        self, key: ScopedKey, before: StoredClaim, claim: Claim, *, expires_at: int | None = None
    ) -> StoredClaim | None:
        """Write a claim unless it was changed in the meantime; then None."""
        changed = await self._claims.change(
            key.place("submit"), before.version, _attributes(claim), expires_at=expires_at
        )
        found = None if changed is None else _stored(changed)
        return found if found is not None and found.claim == claim else None

    async def complete(self, key: ScopedKey, request: str, answer: Submitted) -> None:
        """Store the answer, for when the request is sent again. The first answer stays."""
        await self._claims.answer(key.place("submit"), request, ANSWER, answer.model_dump_json())

    async def release(self, key: ScopedKey, claim: StoredClaim) -> None:
        """Make the key usable for other requests, unless its claim was changed in the meantime."""
        await self._claims.release(key.place("submit"), claim.version)


def _attributes(claim: Claim) -> Attributes:
    return {
        REQUEST: claim.request,
        OWNER: claim.owner,
        "claimed_at": claim.claimed_at,
        "sent_at": claim.sent_at,
        "settled_at": claim.settled_at,
        "ended": claim.ended,
    }


def _stored(item: Item) -> StoredClaim:
    found = item.attributes
    answer = found.get(ANSWER)
    # An item of an earlier release has only its request and its answer, and expires a day after it was written.
    written_at = float((item.expires_at or KEEP_SECONDS) - KEEP_SECONDS)
    first = Claim.first(str(found[REQUEST]), str(found.get(OWNER, "")), _number(found.get("claimed_at"), written_at))
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
