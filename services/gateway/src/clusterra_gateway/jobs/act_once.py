"""Carries out a change of a job at most once for an Idempotency-Key. Submits have rules of their own: `submit_once`."""

import hashlib
import time
import uuid
from collections.abc import Awaitable, Callable

import structlog
from clusterra_contracts.rpc.budgets import CANCEL
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.item import Attributes, Item, Key
from clusterra_runtime.store.store import ConditionFailed, Delete, Put, Store, StoreError, Update

from clusterra_gateway.http.errors import InFlight, KeyReused, OutcomeUnknown
from clusterra_gateway.idempotency.key import IDEMPOTENCY, KEEP_SECONDS
from clusterra_gateway.jobs.idempotency import ScopedKey

log = structlog.get_logger()

IN_FLIGHT_SECONDS = 2 * CANCEL.gateway
"""A change that has no outcome after this time has been given up by everybody who worked on it."""

type Act = Callable[[], Awaitable[None]]


class ActOnce:
    """The keys of changes. A key belongs to one person on one cluster, and to one change."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    async def run(self, key: ScopedKey, what: str, act: Act) -> bool:
        """Act, unless the key says that it was done. Returns whether it was done before. `what` tells requests apart.

        A change that failed leaves its key free, and so does one that reached nobody. Raises KeyReused, InFlight,
        OutcomeUnknown, RpcFailed, StoreUnavailable.
        """
        digest = hashlib.sha256(what.encode()).hexdigest()
        now = self._clock()
        place = Key(key.item.pk, "change")
        owner = uuid.uuid4().hex
        values: Attributes = {"request": digest, "owner": owner, "sent_at": now, "done": False}
        claim = Put(IDEMPOTENCY, place, values, Absent(), _expiry(now))
        try:
            mine = await self._store.write(claim)
        except ConditionFailed as taken:
            if taken.current is None:
                raise InFlight("this Idempotency-Key has just expired", hint="ask again") from None
            # The store repeats a write whose answer was lost, and then finds its own claim.
            if taken.current.attributes["owner"] != owner:
                return self._repeated(taken.current, digest)
            mine = taken.current
        try:
            await act()
        except RpcFailed as failed:
            if not failed.error.may_have_effect:
                await self._note(self._store.delete(Delete(IDEMPOTENCY, place, VersionIs(mine.version))))
            raise
        done = Update(IDEMPOTENCY, place, set={"done": True}, condition=VersionIs(mine.version))
        await self._note(self._store.write(done))
        return False

    def _repeated(self, found: Item, digest: str) -> bool:
        if found.attributes["request"] != digest:
            raise KeyReused(
                "this Idempotency-Key was used for a different request", hint="use a new key for each new change"
            )
        if found.attributes["done"]:
            return True
        sent_at = found.attributes["sent_at"]
        if isinstance(sent_at, int | float) and self._clock() - sent_at < IN_FLIGHT_SECONDS:
            raise InFlight(
                "a request with this Idempotency-Key is in flight",
                hint="ask again with the same key after the seconds in Retry-After",
                retry_after_seconds=1,
            )
        raise OutcomeUnknown(
            "nobody knows whether the change was made", hint="read the job, and use a new key if it was not made"
        )

    @staticmethod
    async def _note(write: Awaitable[object]) -> None:
        """Write what is known of the outcome. After a lost write the key says that nobody knows it."""
        try:
            await write
        except (ConditionFailed, StoreError) as error:
            log.warning("claim_not_written", reason=str(error))


def _expiry(at: float) -> int:
    return int(at) + KEEP_SECONDS
