"""Carries out a change of a job at most once for an Idempotency-Key. Submits have rules of their own: `submit_once`."""

import hashlib
import time
from collections.abc import Awaitable, Callable

from clusterra_contracts.rpc.budgets import CANCEL
from clusterra_runtime.store.item import Attributes, Key
from clusterra_runtime.store.store import Store

from clusterra_gateway.idempotency.once import Once
from clusterra_gateway.jobs.idempotency import ScopedKey

IN_FLIGHT_SECONDS = 2 * CANCEL.gateway
"""A change that has no outcome after this time has been given up by everybody who worked on it."""


class ActOnce:
    """The keys of changes. A key belongs to one person on one cluster, and to one change."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._once = Once(
            store,
            in_flight_seconds=IN_FLIGHT_SECONDS,
            unknown_hint="read the job, and use a new key if it was not",
            clock=clock,
        )

    async def run(self, key: ScopedKey, what: str, act: Callable[[], Awaitable[None]]) -> bool:
        """Act, unless the key says that it was done. Returns whether it was done before. `what` tells requests apart.

        A change that failed leaves its key free, and so does one that reached nobody. Raises KeyReused, InFlight,
        OutcomeUnknown, RpcFailed, StoreUnavailable.
        """

        async def change() -> Attributes:
            await act()
            return {}

        digest = hashlib.sha256(what.encode()).hexdigest()
        return await self._once.run(Key(key.item.pk, "change"), digest, change) is not None
