"""What delivers an event: one sender for each form of request."""

from typing import Protocol

from clusterra_contracts.events import Event
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.webhooks import Attempt
from clusterra_contracts.webhooks import Webhook


class Sender(Protocol):
    """Sends events. It never raises: whatever goes wrong is in the attempt."""

    async def send(self, webhook: Webhook, ref: ClusterRef, event: Event) -> Attempt:
        """Send an event of a cluster once."""


class SelectiveSender(Protocol):
    """A sender that knows of events that nobody gets. It never raises either."""

    async def send(self, webhook: Webhook, ref: ClusterRef, event: Event) -> Attempt | None:
        """Send an event of a cluster once; None where nobody gets it."""
