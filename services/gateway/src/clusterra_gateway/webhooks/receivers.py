"""Asks the events service, which delivers: for tests of webhooks, and for the state of their deliveries."""

import math

from clusterra_contracts.rpc.webhooks import ATTEMPT_SECONDS, Attempt, DeliveryPage, ReadDeliveries
from clusterra_contracts.webhooks import Webhook
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.rate_limit import RateLimit

from clusterra_gateway.bus.webhook_requests import WebhookRequests
from clusterra_gateway.http.answers.problems import request_error_of
from clusterra_gateway.http.requests.errors import FieldError, NotDelivered, TooManyRequests

TESTS_PER_MINUTE = 30
"""For a workspace, at each replica, so that tests cannot flood a server of somebody else."""
STATE_SECONDS = 2.0
"""A webhook is shown without its state if the answer takes longer."""


class Receivers:
    """Requests to the events service, within the limit of tests."""

    def __init__(self, requests: WebhookRequests) -> None:
        self._requests = requests
        self._limit = RateLimit(TESTS_PER_MINUTE / 60, TESTS_PER_MINUTE)

    async def test(self, tenant: str, webhook: Webhook) -> Attempt:
        """Sends a test event once. Raises TooManyRequests, and RequestError where nobody knows what came of it."""
        taken = self._limit.take(tenant)
        if not taken.admitted:
            raise TooManyRequests(
                f"this workspace has sent {TESTS_PER_MINUTE} tests of webhooks in the last minute",
                hint="wait for the seconds in Retry-After",
                retry_after_seconds=max(math.ceil(taken.next_seconds), 1),
            )
        try:
            return await self._requests.test(tenant, webhook)
        except RpcFailed as failed:
            # Nothing is stored yet, so that a request with an Idempotency-Key can be sent again.
            raise request_error_of(failed.error) from failed

    async def check(self, tenant: str, webhook: Webhook) -> None:
        """Raises NotDelivered if a test event is not delivered, and RequestError as `test`."""
        attempt = await self.test(tenant, webhook)
        if attempt.delivered:
            return
        found = attempt.problem or f"the receiver answered {attempt.status}"
        raise NotDelivered(
            f"the test event was not delivered: {found}",
            hint=f"the receiver must answer with a status of 200 to 299 within {ATTEMPT_SECONDS:g} seconds, at a"
            " public IP address; redirects are not followed",
            errors=(FieldError("body", "#/url", found),),
        )

    async def state(self, tenant: str, webhook_id: str) -> DeliveryPage | None:
        """The state of a webhook's deliveries; None while nobody knows it."""
        request = ReadDeliveries(webhook_id=webhook_id, limit=1)
        try:
            return await self._requests.deliveries(tenant, request, timeout_seconds=STATE_SECONDS)
        except RpcFailed:
            return None

    async def page(self, tenant: str, request: ReadDeliveries) -> DeliveryPage:
        """A page of a webhook's delivery log. Raises RpcFailed."""
        return await self._requests.deliveries(tenant, request)
