"""The gateway's requests to the events service about webhooks. Every method raises RpcFailed."""

from clusterra_contracts.bus import subjects
from clusterra_contracts.identity import TenantRef
from clusterra_contracts.rpc.webhooks import ATTEMPT_SECONDS, Attempt, DeliveryPage, ReadDeliveries, TestWebhook
from clusterra_contracts.webhooks import Webhook
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.rpc import call

TEST_SECONDS = ATTEMPT_SECONDS + 5.0
"""Timeout for a test: the attempt, and the time until it begins."""
DELIVERIES_SECONDS = 5.0


class WebhookRequests:
    """Tests, and the delivery log."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def test(self, tenant: str, webhook: Webhook) -> Attempt:
        """Sends a test event to a webhook, which need not be stored, once."""
        subject = subjects.webhook_test(TenantRef(tenant=tenant))
        request = TestWebhook(webhook=webhook)
        return await call(self._client, subject, request, Attempt, timeout_seconds=TEST_SECONDS)

    async def deliveries(
        self, tenant: str, request: ReadDeliveries, *, timeout_seconds: float = DELIVERIES_SECONDS
    ) -> DeliveryPage:
        """A page of the delivery log of a webhook, and the state of its deliveries."""
        subject = subjects.webhook_deliveries(TenantRef(tenant=tenant))
        return await call(self._client, subject, request, DeliveryPage, timeout_seconds=timeout_seconds)
