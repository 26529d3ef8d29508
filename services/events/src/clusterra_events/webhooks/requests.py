"""Answers `webhook-test.<tenant>` and `webhook-deliveries.<tenant>`."""

import secrets
from collections.abc import Callable, Iterable
from contextlib import aclosing

from clusterra_contracts.events import AdminFact, event_of
from clusterra_contracts.identity import ClusterRef, TenantRef, now
from clusterra_contracts.rpc.reply import RpcError
from clusterra_contracts.rpc.webhooks import Attempt, Delivery, DeliveryPage, ReadDeliveries, TestWebhook
from clusterra_contracts.webhooks import Webhook, WebhookState
from clusterra_runtime.nats import rpc
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.store import Store
from nats.aio.subscription import Subscription

from clusterra_events.webhooks.definitions import stored_webhook
from clusterra_events.webhooks.progress import Progress, progress_of
from clusterra_events.webhooks.sender import Sender
from clusterra_events.webhooks.state_table import MOST_ENTRIES, DeliveryRecords

SERVICE = "events"
QUEUE = "webhooks"
"""Replicas share the requests."""
TESTS_AT_ONCE = 16
NO_CLUSTER = "none"
"""The cluster in the test event of a tenant that has none."""
STOPPED = "an admin has disabled it"


class WebhookRequests:
    """The answers."""

    def __init__(
        self, store: Store, records: DeliveryRecords, sender: Sender, clusters: Callable[[], Iterable[ClusterRef]]
    ) -> None:
        self._store = store
        self._records = records
        self._sender = sender
        self._clusters = clusters

    async def serve(self, client: Client) -> tuple[Subscription, ...]:
        """Answer requests from now on."""
        testing = await rpc.serve_tenant(
            client, "webhook-test.*", TestWebhook, self.test, queue=QUEUE, concurrency=TESTS_AT_ONCE, secret=True
        )
        reading = await rpc.serve_tenant(client, "webhook-deliveries.*", ReadDeliveries, self.read, queue=QUEUE)
        return testing, reading

    async def test(self, ref: TenantRef, request: TestWebhook) -> Attempt:
        """Send a test event once. It is in no stream and in no delivery log."""
        own = sorted(each.cluster for each in self._clusters() if each.tenant == ref.tenant)
        cluster = ClusterRef(tenant=ref.tenant, cluster=own[0] if own else NO_CLUSTER)
        fact = AdminFact(kind="webhook.test", actor=SERVICE, subject=request.webhook.id)
        event = event_of(SERVICE, cluster, fact, version=secrets.token_hex(8), time=now())
        return await self._sender.send(request.webhook, cluster, event)

    async def read(self, ref: TenantRef, request: ReadDeliveries) -> DeliveryPage:
        """One page of the delivery log, and the state of the webhook. Raises RpcFailed (`invalid`), StoreError."""
        webhook = await stored_webhook(self._store, ref.tenant, request.webhook_id)
        kept = (await self._records.progress(ref.tenant, request.webhook_id)).progress
        found, cursor = list[Delivery](), None
        last = _position(request.cursor) if request.cursor is not None else -1 if kept is None else kept.logged
        # One more than is shown tells whether there are more, and the last may be one that is not written yet.
        at_once = MOST_ENTRIES if request.failed_only else request.limit + 2
        async with aclosing(self._records.newest(ref.tenant, request.webhook_id, last, at_once)) as entries:
            async for number, delivery in entries:
                if request.failed_only and delivery.last.delivered:
                    continue
                if len(found) == request.limit:
                    cursor = str(number)
                    break
                found.append(delivery)
        progress = kept if kept is None or webhook is None else progress_of(kept, webhook.deliver_from)
        state, reason = _state(webhook, progress)
        return DeliveryPage(
            state=state,
            failing_since=None if progress is None else progress.failing_since,
            next_attempt_at=None if progress is None or state == "disabled" else progress.next_attempt_at,
            disabled_reason=reason,
            deliveries=tuple(found),
            cursor=cursor,
        )


def _state(webhook: Webhook | None, progress: Progress | None) -> tuple[WebhookState, str]:
    """The state of a webhook, and why it is disabled."""
    if webhook is not None and not webhook.enabled:
        return "disabled", STOPPED
    if progress is not None and progress.disabled_reason:
        return "disabled", progress.disabled_reason
    return ("working" if progress is None or progress.failing_since is None else "retrying"), ""


def _position(cursor: str) -> int:
    """The number of the entry that a page begins with. Raises RpcFailed."""
    if cursor.isascii() and cursor.isdecimal() and len(cursor) <= 18:
        return int(cursor)
    raise RpcFailed(
        RpcError(kind="invalid", detail="the cursor does not belong to this list", hint="start without a cursor")
    )
