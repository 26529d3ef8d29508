"""Removes the records of webhooks that are gone, and those of a tenant that is deleted."""

from clusterra_runtime.store.store import Store

from clusterra_events.webhooks.definitions import stored_webhooks
from clusterra_events.webhooks.state_table import MOST_ENTRIES, DeliveryRecords


class Forgetting:
    """Finds the records by the progress of each webhook, which goes last."""

    def __init__(self, store: Store, records: DeliveryRecords) -> None:
        self._store = store
        self._records = records

    async def forget_gone(self, tenant: str) -> None:
        """Remove the records of webhooks of a tenant that are deleted. Raises StoreError."""
        known = await self._records.known(tenant)
        if not known:
            return
        # After the records: one that was made meanwhile is not taken for one that is gone.
        there = {item.key.sk async for item in stored_webhooks(self._store, tenant)}
        for webhook_id in set(known) - there:
            await self._records.forget(tenant, webhook_id, MOST_ENTRIES)

    async def forget_tenant(self, tenant: str, most: int) -> int:
        """Remove about `most` records of a tenant without clusters. Returns how many. Raises StoreError.

        The tenant may get a cluster again. So of webhooks that are there the progress is set aside: they would begin
        anew without it, also those that are disabled.
        """
        known = await self._records.known(tenant)
        there = {item.key.sk async for item in stored_webhooks(self._store, tenant)}
        removed = 0
        for webhook_id in known:
            remove = self._records.set_aside if webhook_id in there else self._records.forget
            removed += await remove(tenant, webhook_id, most - removed)
            if removed >= most:
                break
        return removed
