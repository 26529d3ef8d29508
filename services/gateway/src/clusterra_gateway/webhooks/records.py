"""Stores the webhooks of tenants. Each change is a conditional write, with its audit event.

The items are those of `clusterra_runtime.store.webhook_records`: `webhooks#<tenant>`, then the id of the webhook.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from clusterra_contracts.events import AdminFact, AdminKind
from clusterra_contracts.webhooks import MAX_WEBHOOKS, Webhook
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.optimistic_write import write_optimistically
from clusterra_runtime.store.page import all_items
from clusterra_runtime.store.store import Put, Update
from clusterra_runtime.store.webhook_records import (
    DELETED,
    WEBHOOKS,
    attributes_of,
    stored_webhooks,
    webhook_key,
    webhook_of,
    webhooks_partition,
)

from clusterra_gateway.accounts.admin_events import AuditedWrites
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.records import Member
from clusterra_gateway.http.requests.errors import Conflict, NotFound

DELETED_KEPT_SECONDS = 7 * 86_400
"""How long the item of a deleted webhook stays, so that its event can be sent before it goes."""
MAX_DELETED = 500
"""The most of these items of a tenant with which it gets a new webhook: whoever reads the webhooks reads them, too."""


@dataclass(frozen=True, slots=True)
class StoredWebhook:
    """A webhook with the version of its item."""

    webhook: Webhook
    version: int


class WebhookRecords:
    """The webhooks of all tenants. Every method may raise StoreUnavailable."""

    def __init__(self, directory: Directory, registry: Registry) -> None:
        self._directory = directory
        self._audited = AuditedWrites(directory, registry)

    async def all(self, tenant: str) -> list[Webhook]:
        """The webhooks of a tenant that can be read, the oldest first."""
        items = stored_webhooks(self._directory.store, tenant)
        found = [webhook async for item in items if (webhook := webhook_of(item)) is not None]
        return sorted(found, key=lambda each: each.created_at)

    async def get(self, tenant: str, webhook_id: str) -> StoredWebhook:
        """A webhook of a tenant. Raises NotFound, also for one that cannot be read."""
        item = await self._directory.store.get(WEBHOOKS, webhook_key(tenant, webhook_id))
        webhook = None if item is None else webhook_of(item)
        if item is None or webhook is None:
            raise NotFound("there is no such webhook", hint="GET /v1/webhooks lists them")
        return StoredWebhook(webhook, item.version)

    async def check_room(self, tenant: str) -> None:
        """Raises Conflict for a tenant that has as many webhooks as it may, or has deleted very many of late."""
        store, partition = self._directory.store, webhooks_partition(tenant)
        count = Counter[bool]()
        async for item in all_items(lambda after: store.query(WEBHOOKS, partition, cursor=after, limit=100)):
            count[DELETED in item.attributes] += 1
        if count[False] >= MAX_WEBHOOKS:
            raise Conflict(f"there are {MAX_WEBHOOKS} webhooks, the most allowed", hint="delete an unused one")
        if count[True] >= MAX_DELETED:
            raise Conflict(
                f"this workspace has deleted {MAX_DELETED} webhooks in the last days",
                hint="change one that is there, or try again in a few days",
            )

    async def create(self, actor: Member, webhook: Webhook) -> None:
        """Stores a new webhook. Raises Conflict for more than a tenant may have."""
        put = Put(WEBHOOKS, webhook_key(actor.tenant, webhook.id), attributes_of(webhook), Absent())

        async def attempt() -> None:
            # The tenant changes with each new webhook, so that two cannot both be the last one allowed.
            unchanged = await self._directory.tenant_unchanged(actor.tenant)
            await self.check_room(actor.tenant)
            fact = _fact(actor, webhook, "webhook.created")
            await self._audited.write(actor.tenant, [fact], put, [unchanged])

        await write_optimistically(attempt, contended=_contended())

    async def change(
        self, actor: Member, webhook_id: str, kind: AdminKind, change: Callable[[Webhook], Webhook]
    ) -> Webhook:
        """Writes what `change` makes of a webhook, unless that is the same. Returns it.

        `change` may be called several times. Raises NotFound, Conflict, and what `change` raises.
        """

        async def attempt() -> Webhook:
            stored = await self.get(actor.tenant, webhook_id)
            changed = change(stored.webhook)
            if changed != stored.webhook:
                update = Update(
                    WEBHOOKS,
                    webhook_key(actor.tenant, webhook_id),
                    set=attributes_of(changed),
                    condition=VersionIs(stored.version),
                )
                await self._audited.write(actor.tenant, [_fact(actor, changed, kind)], update)
            return changed

        return await write_optimistically(attempt, contended=_contended())

    async def delete(self, actor: Member, webhook_id: str) -> None:
        """Deletes a webhook. Its URL and its secrets are removed at once. Raises NotFound, Conflict."""

        async def attempt() -> None:
            stored = await self.get(actor.tenant, webhook_id)
            gone = Update(
                WEBHOOKS,
                webhook_key(actor.tenant, webhook_id),
                set={DELETED: True},
                remove=tuple(attributes_of(stored.webhook)),
                condition=VersionIs(stored.version),
                expires_at=int(time.time()) + DELETED_KEPT_SECONDS,
            )
            await self._audited.write(actor.tenant, [_fact(actor, stored.webhook, "webhook.deleted")], gone)

        await write_optimistically(attempt, contended=_contended())


def _fact(actor: Member, webhook: Webhook, kind: AdminKind) -> AdminFact:
    return AdminFact(kind=kind, actor=actor.user, subject=webhook.id, detail=webhook.name)


def _contended() -> Conflict:
    return Conflict("the webhooks of this workspace are being changed by others", hint="try again in a moment")
