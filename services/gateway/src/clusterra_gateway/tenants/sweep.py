"""Goes on with deletions until nothing is left. Every gateway does so: no deletion needs a certain one."""

import asyncio
import random

import structlog
from clusterra_contracts.bus.envelope import InvalidMessage
from clusterra_runtime.nats.bus import BusUnavailable, MessageRejected
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.item import Item
from clusterra_runtime.store.store import Store, StoreError
from pydantic import ValidationError

from clusterra_gateway.accounts.keyspace import ACCOUNTS, CLUSTER_DELETIONS, DELETIONS
from clusterra_gateway.http.requests.errors import RequestError
from clusterra_gateway.tenants.removal import ClusterRemoval
from clusterra_gateway.tenants.tenant_removal import TenantRemoval

log = structlog.get_logger()

INTERVAL_SECONDS = 5.0
PAGE = 100
STEP_SECONDS = 300.0
"""A step that takes longer is gone on with in the next round."""


class DeletionSweep:
    """Takes each deletion one step further, again and again."""

    def __init__(self, store: Store, clusters: ClusterRemoval, tenants: TenantRemoval) -> None:
        self._store = store
        self._clusters = clusters
        self._tenants = tenants

    async def run(self) -> None:
        """Look for deletions every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_SECONDS * random.uniform(0.8, 1.2))  # noqa: S311
            try:
                await self.sweep()
            except StoreError as error:
                log.warning("deletions_not_read", reason=str(error))

    async def sweep(self) -> None:
        """Take each deletion one step further. One that cannot go on now holds up no other. Raises StoreError."""
        cursor = None
        while True:
            page = await self._store.query(ACCOUNTS, DELETIONS, limit=PAGE, cursor=cursor)
            for item in page.items:
                await self._step(item)
            if (cursor := page.cursor) is None:
                return

    async def _step(self, item: Item) -> None:
        removal = self._clusters if CLUSTER_DELETIONS.covers(item.key.sk) else self._tenants
        try:
            async with asyncio.timeout(STEP_SECONDS):
                await removal.step(item)
        except (StoreError, BusUnavailable, MessageRejected, InvalidMessage, RpcFailed, RequestError) as error:
            log.warning("deletion_waits", of=item.key.sk, reason=str(error))
        except TimeoutError:
            log.warning("deletion_waits", of=item.key.sk, reason=f"the step took more than {STEP_SECONDS:g} s")
        except ValidationError as error:
            # Not the error's text: it repeats the record. A newer release may read it.
            log.error("deletion_unreadable", of=item.key.sk, problems=error.error_count())  # noqa: TRY400
