"""Carries out a request at most once for an Idempotency-Key. Submits have rules of their own: `jobs.submit_once`."""

import time
import uuid
from collections.abc import Awaitable, Callable

import structlog
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.item import Attributes, Item, Key
from clusterra_runtime.store.store import ConditionFailed, Delete, Put, Store, StoreError, Update

from clusterra_gateway.http.errors import InFlight, KeyReused, OutcomeUnknown, RequestError
from clusterra_gateway.idempotency.key import IDEMPOTENCY, KEEP_SECONDS

log = structlog.get_logger()

type Act = Callable[[], Awaitable[Attributes]]
"""Carries out the request, and returns what to keep of its outcome."""


class Once:
    """Keys as items of the store: a key is claimed, and then done; or free again after a failure without effect."""

    def __init__(
        self, store: Store, *, in_flight_seconds: float, unknown_hint: str, clock: Callable[[], float] = time.time
    ) -> None:
        """`in_flight_seconds`: after that time, everybody who worked on a request without an outcome has given it up.

        `unknown_hint` says how to find out whether such a request was carried out.
        """
        self._store = store
        self._in_flight_seconds = in_flight_seconds
        self._unknown_hint = unknown_hint
        self._clock = clock

    async def run(self, place: Key, digest: str, act: Act) -> Item | None:
        """Act, unless the request was carried out before; then returns the item with what was kept of it.

        `digest` tells requests with one key apart. Raises KeyReused, InFlight, OutcomeUnknown, StoreUnavailable, and
        what `act` raises: RequestError leaves the key free, and so does RpcFailed that certainly had no effect.
        """
        now, owner = self._clock(), uuid.uuid4().hex
        claim: Attributes = {"request": digest, "owner": owner, "sent_at": now, "done": False}
        try:
            mine = await self._store.write(Put(IDEMPOTENCY, place, claim, Absent(), int(now) + KEEP_SECONDS))
        except ConditionFailed as taken:
            if taken.current is None:
                raise InFlight("this Idempotency-Key has just expired", hint="ask again") from None
            # The store repeats a write whose answer was lost, and then finds its own claim.
            if taken.current.attributes["owner"] != owner:
                return self._done_before(taken.current, digest)
            mine = taken.current
        try:
            kept = await act()
        except (RequestError, RpcFailed) as failed:
            if not (isinstance(failed, RpcFailed) and failed.error.may_have_effect):
                await self._note(self._store.delete(Delete(IDEMPOTENCY, place, VersionIs(mine.version))))
            raise
        done = {"done": True, **kept}
        await self._note(self._store.write(Update(IDEMPOTENCY, place, set=done, condition=VersionIs(mine.version))))
        return None

    def _done_before(self, found: Item, digest: str) -> Item:
        if found.attributes["request"] != digest:
            raise KeyReused(
                "this Idempotency-Key was used for a different request", hint="use a new key for each new request"
            )
        if found.attributes["done"]:
            return found
        sent_at = found.attributes["sent_at"]
        if isinstance(sent_at, int | float) and self._clock() - sent_at < self._in_flight_seconds:
            raise InFlight(
                "a request with this Idempotency-Key is in flight",
                hint="ask again with the same key after the seconds in Retry-After",
                retry_after_seconds=1,
            )
        raise OutcomeUnknown("nobody knows whether the request was carried out", hint=self._unknown_hint)

    @staticmethod
    async def _note(write: Awaitable[object]) -> None:
        """Write what is known of the outcome. After a lost write the key says that nobody knows it."""
        try:
            await write
        except (ConditionFailed, StoreError) as error:
            log.warning("claim_not_written", reason=str(error))
