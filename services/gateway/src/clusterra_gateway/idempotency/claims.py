"""Stores the claims of idempotency keys: one item for each key, changed by conditional writes only.

| write | is refused unless |
|---|---|
| claim | there is no claim |
| change, release | the claim is as it was read |
| answer | the claim is for the same request, and has no answer |

Every claim has `request`, the hash of its request, and `owner`, which identifies its latest attempt. The other
attributes are those of `Once` and of `submits.keys`. The store repeats a write whose answer was lost, and then finds
that the claim has changed. By `owner` a writer recognizes that it was its own write.
"""

import uuid
from collections.abc import Sequence

from clusterra_runtime.store.condition import Absent, Missing, VersionIs, compare
from clusterra_runtime.store.item import Attributes, Item, Key
from clusterra_runtime.store.optimistic_write import write_optimistically
from clusterra_runtime.store.store import ConditionFailed, Delete, Put, Store, TransactionCancelled, Update, Write

from clusterra_gateway.http.requests.errors import InFlight
from clusterra_gateway.idempotency.key import KEEP_SECONDS
from clusterra_gateway.idempotency.table import IDEMPOTENCY

REQUEST = "request"
OWNER = "owner"
ATTEMPTS = 3
"""How many times a claim is written where another one expires at the same moment."""


class Claims:
    """The claims of all keys. Of several writers at the same time exactly one succeeds. All raise StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def claim(
        self, place: Key, attributes: Attributes, at: float, beside: Sequence[Write] = ()
    ) -> tuple[Item, bool]:
        """Claim a key. Returns its claim, and whether it is this one.

        The claim and the writes `beside` it happen together or not at all. Raises TransactionCancelled, whose first
        reason is None, where one of those was refused; InFlight where no claim could be written.
        """
        put = Put(IDEMPOTENCY, place, attributes, Absent(), expiry(at))
        expired = InFlight("this Idempotency-Key has just expired", hint="ask again")
        found = await write_optimistically(
            lambda: self._written(put, beside), contended=expired, attempts=ATTEMPTS, on=(ConditionFailed,)
        )
        return found, found.attributes.get(OWNER) == attributes[OWNER]

    async def _written(self, put: Put, beside: Sequence[Write]) -> Item:
        """The new claim, or the one that existed before. Raises ConditionFailed if that one has just expired."""
        try:
            if not beside:
                return await self._store.write(put)
            await self._store.transact([put, *beside], token=uuid.uuid4().hex)
            return Item(put.key, put.attributes, put.version, put.expires_at)
        except ConditionFailed as taken:
            refused = taken
        except TransactionCancelled as cancelled:
            if cancelled.reasons[0] is None:
                raise
            refused = cancelled.reasons[0]
        if refused.current is None:
            raise refused
        return refused.current

    async def change(
        self, place: Key, version: int, attributes: Attributes, *, expires_at: int | None = None
    ) -> Item | None:
        """Changes a claim. Returns None if its version has changed."""
        update = Update(IDEMPOTENCY, place, set=attributes, condition=VersionIs(version), expires_at=expires_at)
        try:
            return await self._store.write(update)
        except ConditionFailed as failed:
            found = failed.current
            mine = found is not None and all(found.attributes.get(name) == attributes[name] for name in attributes)
            return found if mine else None

    async def answer(self, place: Key, request: str, name: str, answer: str) -> None:
        """Store the answer under this name, for when the request is sent again. The first answer stays."""
        unanswered = compare(REQUEST, "==", request) & Missing(name)
        try:
            await self._store.write(Update(IDEMPOTENCY, place, set={name: answer}, condition=unanswered))
        except ConditionFailed:
            return  # another request stored it, or the claim has expired

    async def release(self, place: Key, version: int) -> bool:
        """Frees the key for other requests. Returns False if the version of its claim has changed."""
        try:
            await self._store.delete(Delete(IDEMPOTENCY, place, VersionIs(version)))
        except ConditionFailed:
            return False
        return True


def expiry(at: float) -> int:
    """When a claim of this moment expires."""
    return int(at) + KEEP_SECONDS
