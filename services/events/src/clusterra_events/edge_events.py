"""Takes the facts that edge-agents tell into the stream EVENT, after checking that they are theirs to tell."""

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import InvalidMessage
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.events import AGENT_KINDS, Event, entity
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.client import Client

MAX_DECODED_BYTES = 16 * 1024
"""The largest event of an agent that is read."""
MAX_SUBJECT = 253
"""The most characters of the name of a worker or a node."""


class EdgeEvents:
    """The reader of the stream EDGE_EVENT. That stream bounds how many events one cluster may tell.

    JetStream drops an event whose id it has seen, whichever cluster it is of. So an agent may only use ids of its own
    cluster, or it could have another's events dropped.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    async def take(self, subject: Subject, event: Event, _sequence: int) -> None:
        """Store an agent's event among all events, once per id.

        Raises InvalidMessage for one that the agent may not tell, BusUnavailable and MessageRejected.
        """
        ref = subject.ref
        if event.kind != subject.rest or event.kind not in AGENT_KINDS:
            raise InvalidMessage(f"an event of kind {event.kind} was published on the subject of {subject.rest}")
        if not event.id.startswith(f"{ref.key}:"):
            raise InvalidMessage("the id is not one of this cluster's events")
        if event.subject != entity(event.data) or len(event.subject) > MAX_SUBJECT:
            raise InvalidMessage("the subject is not the worker or the node that the event is about")
        await bus.publish_durable(self._client, subjects.event(ref, event.kind), event, message_id=event.id)
