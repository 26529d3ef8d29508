"""What delivers an event: one sender for each form of request."""

import time
from typing import Protocol

from clusterra_contracts.events import Event
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.webhooks import Attempt
from clusterra_contracts.webhooks import Webhook
from prometheus_client import Counter

from clusterra_events.webhooks.posting.poster import Answer

ATTEMPTS = Counter("clusterra_webhook_attempts_total", "Events sent to webhooks, by outcome", ("outcome",))


class Sender(Protocol):
    """Sends events. It never raises: whatever goes wrong is in the attempt."""

    async def send(self, webhook: Webhook, ref: ClusterRef, event: Event) -> Attempt:
        """Send an event of a cluster once."""


class SelectiveSender(Protocol):
    """A sender that knows of events that nobody gets. It never raises either."""

    async def send(self, webhook: Webhook, ref: ClusterRef, event: Event) -> Attempt | None:
        """Send an event of a cluster once; None where nobody gets it."""


def attempt_of(answer: Answer, began: float) -> Attempt:
    """The attempt that got an answer, and counts it. `began`: its start, by `time.monotonic`."""
    delivered = answer.status is not None and 200 <= answer.status < 300
    outcome = "delivered" if delivered else "refused" if answer.status is not None else "unanswered"
    ATTEMPTS.labels(outcome).inc()
    return Attempt(
        delivered=delivered,
        status=answer.status,
        answer_bytes=len(answer.body),
        seconds=round(time.monotonic() - began, 3),
        problem=answer.problem,
    )
