"""Sends one event to the URL of a webhook, once, signed as Standard Webhooks says."""

import time

from clusterra_contracts.events import Event
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.webhooks import Attempt
from clusterra_contracts.webhooks import Webhook

from clusterra_events.webhooks.posting.poster import Answer, Poster
from clusterra_events.webhooks.sender import attempt_of
from clusterra_events.webhooks.signature import SecretUnusable, message_id, signed_headers

CONTENT_TYPE = "application/cloudevents+json"


class StandardSender:
    """Sends signed events."""

    def __init__(self, poster: Poster) -> None:
        self._poster = poster

    async def send(self, webhook: Webhook, ref: ClusterRef, event: Event) -> Attempt:
        """Send an event of a cluster once. Whatever goes wrong is in the attempt."""
        began = time.monotonic()
        body = event.model_dump_json().encode()
        try:
            signed = signed_headers(message_id(ref, event.id), now(), body, webhook.secrets)
        except SecretUnusable as refused:
            return attempt_of(Answer(problem=str(refused)), began)
        answer = await self._poster.post(webhook.url, {"Content-Type": CONTENT_TYPE, **signed}, body)
        return attempt_of(answer, began)
