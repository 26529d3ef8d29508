"""A copy in memory of the webhooks of all tenants, which the gateway writes.

A tenant is read again after an event `webhook.*`, and every `REREAD_SECONDS`, because an event may be missed.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from itertools import batched
from types import MappingProxyType

import structlog
from clusterra_contracts.webhooks import Webhook
from clusterra_runtime.store.page import Between
from clusterra_runtime.store.store import Store, StoreError
from clusterra_runtime.store.table_use import TableUse
from clusterra_runtime.store.webhook_records import HOLDS, WEBHOOKS, stored_webhooks, webhook_of, webhooks_partition

READ = TableUse(WEBHOOKS, HOLDS, frozenset({"query"}))
REREAD_SECONDS = 30.0
AT_ONCE = 8
"""How many tenants are read at the same time."""
LOOK_SECONDS = 1.0
"""How often it is looked which tenants are due."""

log = structlog.get_logger(__name__)

type OnChange = Callable[[str, Iterable[str]], None]
"""Is called with a tenant, and the ids of its webhooks that are new or have changed."""
type OnGone = Callable[[str], Awaitable[None]]
"""Is called with a tenant, some of whose webhooks may have been deleted. Raises StoreError."""


async def stored_webhook(store: Store, tenant: str, webhook_id: str) -> Webhook | None:
    """A webhook as it is stored at this moment; None if it is deleted. Raises StoreError."""
    # The events service has the right to query the table, and no other one.
    page = await store.query(WEBHOOKS, webhooks_partition(tenant), sort=Between(webhook_id, webhook_id))
    return webhook_of(page.items[0]) if page.items else None


class Definitions:
    """Reads the webhooks of the tenants that have clusters."""

    def __init__(self, store: Store, tenants: Callable[[], Iterable[str]], on_gone: OnGone) -> None:
        self._store = store
        self._tenants = tenants
        self.on_change: OnChange = lambda _tenant, _webhooks: None
        self._on_gone = on_gone
        self._webhooks: dict[str, dict[str, Webhook]] = {}
        self._there: dict[str, frozenset[str]] = {}
        """Tenant -> the ids of its webhooks, also of those that only a newer release can read."""
        self._read_at: dict[str, float] = {}
        self._stale = set[str]()
        self._hint = asyncio.Event()

    @property
    def webhooks(self) -> Mapping[str, Mapping[str, Webhook]]:
        """Tenant -> id -> webhook. Tenants without any are left out."""
        return MappingProxyType(self._webhooks)

    async def is_current(self, tenant: str, webhook: Webhook) -> bool:
        """Whether a webhook is still stored as given. If not, its tenant is read again soon. Raises StoreError."""
        current = await stored_webhook(self._store, tenant, webhook.id) == webhook
        if not current:
            self.changed(tenant)
        return current

    def changed(self, tenant: str) -> None:
        """Read the webhooks of a tenant again soon."""
        self._stale.add(tenant)
        self._hint.set()

    async def run(self) -> None:
        """Read again and again, forever."""
        while True:
            await self.refresh()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._hint.wait()
            self._hint.clear()

    async def refresh(self) -> None:
        """Read the tenants once whose webhooks may have changed. A tenant that cannot be read keeps what is known."""
        tenants, at = set(self._tenants()), time.monotonic()
        for tenant in self._read_at.keys() - tenants:
            self._forget(tenant)
        stale, self._stale = self._stale & tenants, set()
        due = {each for each in tenants if at - self._read_at.get(each, -REREAD_SECONDS) >= REREAD_SECONDS}
        for some in batched(sorted(stale | due), AT_ONCE):
            await asyncio.gather(*(self._read(tenant) for tenant in some))

    async def _read(self, tenant: str) -> None:
        self._read_at[tenant] = time.monotonic()
        found, there = dict[str, Webhook](), set[str]()
        try:
            async for item in stored_webhooks(self._store, tenant):
                there.add(item.key.sk)
                if (webhook := webhook_of(item)) is not None:
                    found[webhook.id] = webhook
            before = self._there.get(tenant)
            if before is None or before - there:
                await self._on_gone(tenant)
        except StoreError as error:
            log.warning("webhooks_not_read", tenant=tenant, reason=str(error))
            return
        known = self._webhooks.get(tenant, {})
        self._there[tenant] = frozenset(there)
        self._webhooks = {**self._webhooks, tenant: found}
        if not found:
            del self._webhooks[tenant]
        if changed := [each.id for each in found.values() if known.get(each.id) != each]:
            self.on_change(tenant, changed)

    def _forget(self, tenant: str) -> None:
        self._read_at.pop(tenant, None)
        self._there.pop(tenant, None)
        self._webhooks.pop(tenant, None)
