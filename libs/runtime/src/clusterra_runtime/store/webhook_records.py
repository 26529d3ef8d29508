"""The table of webhooks, and the form of its items. The gateway writes them; the events service only reads them."""

from collections.abc import AsyncGenerator

import structlog
from clusterra_contracts.webhooks import Webhook
from pydantic import ValidationError

from clusterra_runtime.store.item import Attributes, Item, Key
from clusterra_runtime.store.outbox_item import OUTBOX
from clusterra_runtime.store.page import all_items
from clusterra_runtime.store.store import Store, Table

WEBHOOKS = Table("webhooks", indexes=(OUTBOX,))
HOLDS = "webhooks of tenants, with the secrets that sign deliveries"
DELETED = "deleted"
"""The attribute of a deleted webhook, whose item stays until its event is sent."""

log = structlog.get_logger()


def webhooks_partition(tenant: str) -> str:
    """The partition of a tenant's webhooks."""
    return f"webhooks#{tenant}"


def webhook_key(tenant: str, webhook_id: str) -> Key:
    """The key of a webhook."""
    return Key(webhooks_partition(tenant), webhook_id)


def attributes_of(webhook: Webhook) -> Attributes:
    """What is stored of a webhook."""
    return {"webhook": webhook.model_dump_json()}


def webhook_of(item: Item) -> Webhook | None:
    """The webhook of an item; None for a deleted one, and for one that only a newer release can read."""
    if item.attributes.get(DELETED):
        return None
    try:
        return Webhook.model_validate_json(str(item.attributes.get("webhook", "")))
    except ValidationError as error:
        # Not the error's text: it repeats the record, with its secrets.
        log.error("webhook_unreadable", key=item.key.sk, problems=error.error_count())  # noqa: TRY400
        return None


async def stored_webhooks(store: Store, tenant: str) -> AsyncGenerator[Item]:
    """The items of a tenant's webhooks that are not deleted, also those that `webhook_of` cannot read.

    They are in the order of their ids. Raises StoreError.
    """
    partition = webhooks_partition(tenant)
    async for item in all_items(lambda after: store.query(WEBHOOKS, partition, cursor=after, limit=100)):
        if not item.attributes.get(DELETED):
            yield item
