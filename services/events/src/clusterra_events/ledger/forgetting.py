"""Removes what the ledger has of a cluster that is deleted."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.store.item import Item, Key
from clusterra_runtime.store.store import Delete, Store
from pydantic import ValidationError

from clusterra_events.ledger import keyspace
from clusterra_events.ledger.facts import FACT, Run, Superseded
from clusterra_events.ledger.keyspace import LEDGER

DAY_SECONDS = 86_400.0
_PAGE = 200


class Forgetting:
    """Finds the workers of a cluster by its open ones and by its days, and removes all about them."""

    def __init__(
        self, store: Store, *, retention_seconds: float, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._store = store
        self._days = int(retention_seconds / DAY_SECONDS) + 2
        self._clock = clock

    async def forget(self, ref: ClusterRef, most: int) -> int:
        """Remove items, until none is left or `most` are removed; some more of the last worker. Returns how many.

        The item by which a worker is found goes last, so whoever goes on after a crash finds what is left of it.
        """
        removed = await self._workers(ref, keyspace.open_partition(ref), most)
        today = self._clock().date()
        for age in range(-1, self._days):
            if removed >= most:
                return removed
            partition = keyspace.day_partition(ref, today - timedelta(days=age))
            removed += await self._workers(ref, partition, most - removed)
        if removed == 0 and await self._store.get(LEDGER, keyspace.settled_key(ref)) is not None:
            await self._store.delete(Delete(LEDGER, keyspace.settled_key(ref)))
            removed = 1
        return removed

    async def _workers(self, ref: ClusterRef, partition: str, most: int) -> int:
        removed = 0
        while removed < most:
            page = await self._store.query(LEDGER, partition, limit=_PAGE)
            if not page.items:
                return removed
            for item in page.items:
                removed += await self._worker(ref, item.key.sk.partition("#")[0], item.key)
                if removed >= most:
                    return removed
        return removed

    async def _worker(self, ref: ClusterRef, worker: str, found_by: Key) -> int:
        removed = 1
        while True:
            page = await self._store.query(LEDGER, keyspace.facts_partition(ref, worker), limit=_PAGE)
            if not page.items:
                break
            for item in page.items:
                if (job_id := _job_of(item)) is not None:
                    removed += await self._partition(keyspace.runs_partition(ref, job_id))
                await self._store.delete(Delete(LEDGER, item.key))
                removed += 1
        await self._store.delete(Delete(LEDGER, keyspace.days_key(ref, worker)))
        await self._store.delete(Delete(LEDGER, found_by))
        return removed

    async def _partition(self, partition: str) -> int:
        removed = 0
        while (page := await self._store.query(LEDGER, partition, limit=_PAGE)).items:
            for item in page.items:
                await self._store.delete(Delete(LEDGER, item.key))
                removed += 1
        return removed


def _job_of(item: Item) -> str | None:
    """The job of a fact; None for a fact about a worker, or for one that this release cannot read."""
    if (job_id := keyspace.job_of_fact(item.key)) is not None:
        return job_id
    try:
        fact = FACT.validate_json(str(item.attributes.get("fact")))
    except ValidationError:
        return None
    return fact.job_id if isinstance(fact, Run | Superseded) else None
