"""Publishing facts: each becomes one CloudEvent in the EVENT stream, however often it is published."""

from datetime import datetime

from clusterra_contracts.bus import subjects
from clusterra_contracts.events import Fact, event_of
from clusterra_contracts.identity import ClusterRef

from clusterra_runtime.nats.bus import publish_durable
from clusterra_runtime.nats.client import Client


class EventPublisher:
    """Publishes the facts of one service as events."""

    def __init__(self, client: Client, service: str) -> None:
        self._client = client
        self._service = service

    async def publish(self, ref: ClusterRef, fact: Fact, *, version: str, time: datetime) -> None:
        """Store the event of a fact. `version` distinguishes it from others of the same kind for the same entity.

        A repetition within the stream's deduplication window changes nothing; after that, the archive recognises the
        id. Raises as `bus.publish_durable` does.
        """
        event = event_of(self._service, ref, fact, version=version, time=time)
        await publish_durable(self._client, subjects.event(ref, fact.kind), event, message_id=event.id)
