"""Removes the delivery records of deleted webhooks and of deleted tenants."""

from clusterra_runtime.store.store import Store
from clusterra_runtime.store.webhook_records import stored_webhooks

from clusterra_events.webhooks.state_table import MOST_ENTRIES, DeliveryRecords


class Forgetting:
    """Finds the records of a webhook by its progress, which is therefore removed last."""

    def __init__(self, store: Store, records: DeliveryRecords) -> None:
        self._store = store
        self._records = records

    async def forget_gone(self, tenant: str) -> None:
        """Remove the records of a tenant's deleted webhooks. Raises StoreError."""
        known = await self._records.known(tenant)
        if not known:
            return
        # Read after the records, so that a webhook that was created in between does not seem deleted.
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
