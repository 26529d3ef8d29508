"""Fences counted in the record, where they cannot go back: a NATS server that crashed may forget its last writes."""

from collections.abc import Callable

import structlog

from clusterra_runtime.backoff import Backoff
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.item import Item, Key
from clusterra_runtime.store.store import ConditionFailed, Store, StoreError, Table, Update

log = structlog.get_logger(__name__)

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 10.0


class FenceCounter:
    """Counts the fences of a service's shards, one item each, by conditional writes. It may be used on any thread.

    Guarantee: each fence is higher than all that were returned for its shard before, to whichever replica.
    """

    def __init__(self, store: Store, table: Table, service: str) -> None:
        self._store = store
        self._table = table
        self._service = service

    async def next_fence(self, shard: int, floor: int) -> int:
        """Count once more, at least to `floor`. While the store does not answer, this is tried again and again."""
        backoff = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        while True:
            try:
                return await self._raise(shard, lambda fence: max(fence + 1, floor))
            except StoreError as error:
                log.warning("fence_not_counted", service=self._service, shard=shard, reason=str(error))
            await backoff.pause()

    async def raise_to(self, shard: int, fence: int) -> None:
        """Let all further fences be higher than this one, which was found in a record. Raises StoreError."""
        await self._raise(shard, lambda counted: max(counted, fence))

    async def _raise(self, shard: int, following: Callable[[int], int]) -> int:
        key = Key("fences", f"{self._service}.{shard}")
        current = await self._store.get(self._table, key)
        while True:
            counted = _fence(current)
            if (fence := following(counted)) == counted:
                return fence
            condition = Absent() if current is None else VersionIs(current.version)
            try:
                await self._store.write(Update(self._table, key, set={"fence": fence}, condition=condition))
            except ConditionFailed as failed:
                # Another replica has counted.
                current = failed.current
            else:
                return fence


def _fence(item: Item | None) -> int:
    fence = item.attributes["fence"] if item is not None else 0
    if not isinstance(fence, int):
        raise StoreError("the counter of fences holds no number")
    return fence
