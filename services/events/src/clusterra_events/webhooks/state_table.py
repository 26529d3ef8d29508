"""The table of deliveries: of each webhook its progress, and the log of its last deliveries.

| partition | sort key | item |
|---|---|---|
| `deliveries#<tenant>` | the webhook | its progress |
| `deliveries#<tenant>#<webhook>` | a slot | an entry of its delivery log |
| `mails#<tenant>`, `mails#<tenant>#<id>` | | the same of the mails of a tenant |

The log is a ring: entry number n is in slot n modulo `MOST_ENTRIES`, and replaces the one that was there. So it has a
bound without deletions. Entries expire, too.
"""

import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Literal

import structlog
from clusterra_contracts.rpc.webhooks import Delivery
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.item import Attributes, Item, Key
from clusterra_runtime.store.page import Between, all_items
from clusterra_runtime.store.store import Delete, Put, Store, Table
from clusterra_runtime.store.table_use import TableUse
from pydantic import ValidationError

from clusterra_events.webhooks.progress import Progress

DELIVERIES = Table("deliveries")
USE = TableUse(
    DELIVERIES,
    "how far the delivery to each webhook has come, and what became of its last deliveries",
    frozenset({"get", "put", "put_all", "query", "delete"}),
    items_expire=True,
)
MOST_ENTRIES = 1000
KEPT_SECONDS = 7 * 86_400
ASIDE_SECONDS = 90 * 86_400
"""How long it is known how far the delivery has come for a tenant without clusters."""
_PAGE = 200

type Family = Literal["deliveries", "mails"]
"""What is delivered: events to webhooks, or mails. Each has partitions of its own."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Kept:
    """The progress of a webhook as it is stored; None before the first time. `version` 0: there is no item."""

    progress: Progress | None
    version: int
    expires: bool = False
    """Whether it is forgotten some day, because the tenant had no cluster for a time."""


class DeliveryRecords:
    """Reads and writes the table."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time, *, family: Family = "deliveries") -> None:
        self._store = store
        self._family = family
        self._clock = clock

    async def progress(self, tenant: str, webhook_id: str) -> Kept:
        """The progress of a webhook. Raises StoreError, and ValidationError for one that this release cannot read."""
        item = await self._store.get(DELIVERIES, self._progress_key(tenant, webhook_id))
        return Kept(None, 0) if item is None else Kept(_progress(item), item.version, item.expires_at is not None)

    async def keep(self, tenant: str, webhook_id: str, progress: Progress, kept: Kept) -> Kept:
        """Replace what is kept. Raises ConditionFailed where another replica was faster, and StoreUnavailable."""
        condition = VersionIs(kept.version) if kept.version else Absent()
        attributes = {"progress": progress.model_dump_json()}
        item = await self._store.write(Put(DELIVERIES, self._progress_key(tenant, webhook_id), attributes, condition))
        return Kept(progress, item.version)

    async def log(self, tenant: str, webhook_id: str, number: int, delivery: Delivery) -> None:
        """Write an entry of the delivery log, or a later state of the same entry. Raises StoreUnavailable."""
        key = Key(self._log_partition(tenant, webhook_id), _slot(number))
        attributes: Attributes = {"number": number, "delivery": delivery.model_dump_json()}
        await self._store.put_all([Put(DELIVERIES, key, attributes, Absent(), int(self._clock()) + KEPT_SECONDS)])

    async def newest(
        self, tenant: str, webhook_id: str, last: int, at_once: int = _PAGE
    ) -> AsyncGenerator[tuple[int, Delivery]]:
        """The entries of the delivery log with numbers up to `last`, the newest first. Raises StoreUnavailable.

        `at_once`: how many are read at a time, at most 200.
        """
        partition = self._log_partition(tenant, webhook_id)
        first = max(last - MOST_ENTRIES + 1, 0)
        for low, high in _ranges(first, last):
            async for item in self._slots(partition, Between(_slot(low), _slot(high)), min(at_once, _PAGE)):
                number = item.attributes.get("number")
                if isinstance(number, int) and low <= number <= high and (found := _delivery(item)) is not None:
                    yield number, found

    def _slots(self, partition: str, sort: Between, at_once: int) -> AsyncGenerator[Item]:
        return all_items(
            lambda after: self._store.query(
                DELIVERIES, partition, sort=sort, descending=True, limit=at_once, cursor=after
            )
        )

    async def known(self, tenant: str) -> list[str]:
        """The ids of the webhooks of a tenant of which there are records. Raises StoreUnavailable."""
        partition = self._partition(tenant)
        items = all_items(lambda after: self._store.query(DELIVERIES, partition, limit=_PAGE, cursor=after))
        return [item.key.sk async for item in items]

    async def forget(self, tenant: str, webhook_id: str, most: int) -> int:
        """Remove at most about `most` records of a webhook, its progress last. Returns how many. Raises StoreError."""
        if (removed := await self._forget_log(tenant, webhook_id, most)) >= most:
            return removed
        await self._store.delete(Delete(DELIVERIES, self._progress_key(tenant, webhook_id)))
        return removed + 1

    async def set_aside(self, tenant: str, webhook_id: str, most: int) -> int:
        """Remove the delivery log as `forget` does. The progress is kept for a time. Raises StoreError."""
        if (removed := await self._forget_log(tenant, webhook_id, most)) >= most:
            return removed
        item = await self._store.get(DELIVERIES, self._progress_key(tenant, webhook_id))
        if item is None or item.expires_at is not None:
            return removed
        expires_at = int(self._clock()) + ASIDE_SECONDS
        await self._store.write(Put(DELIVERIES, item.key, item.attributes, VersionIs(item.version), expires_at))
        return removed + 1

    async def _forget_log(self, tenant: str, webhook_id: str, most: int) -> int:
        removed = 0
        while (page := await self._store.query(DELIVERIES, self._log_partition(tenant, webhook_id), limit=_PAGE)).items:
            for item in page.items:
                await self._store.delete(Delete(DELIVERIES, item.key))
                removed += 1
            if removed >= most:
                break
        return removed

    def _partition(self, tenant: str) -> str:
        return f"{self._family}#{tenant}"

    def _log_partition(self, tenant: str, webhook_id: str) -> str:
        return f"{self._family}#{tenant}#{webhook_id}"

    def _progress_key(self, tenant: str, webhook_id: str) -> Key:
        return Key(self._partition(tenant), webhook_id)


def _ranges(first: int, last: int) -> list[tuple[int, int]]:
    """The numbers from `first` to `last` as ranges whose slots follow each other, the last range first."""
    if last < first:
        return []
    begin = last - last % MOST_ENTRIES
    return [(first, last)] if first >= begin else [(begin, last), (first, begin - 1)]


def _slot(number: int) -> str:
    return f"{number % MOST_ENTRIES:04d}"


def _progress(item: Item) -> Progress:
    return Progress.model_validate_json(str(item.attributes.get("progress", "")))


def _delivery(item: Item) -> Delivery | None:
    """The entry of an item; None for one that only a newer release can read."""
    try:
        return Delivery.model_validate_json(str(item.attributes.get("delivery", "")))
    except ValidationError as error:
        log.warning("delivery_unreadable", item=item.key.sk, problems=error.error_count())
        return None
