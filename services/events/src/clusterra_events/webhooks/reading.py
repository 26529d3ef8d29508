"""Reads the stream of events for one webhook, from where its delivery has come to."""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from datetime import datetime

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import InvalidMessage, decode
from clusterra_contracts.bus.subjects import UnknownSubject
from clusterra_contracts.bus.topology import EVENT
from clusterra_contracts.events import Event
from clusterra_contracts.identity import ClusterRef, TenantRef
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.direct import Stored, StreamEnd, read_page, stream_end

from clusterra_events.webhooks.progress import Progress

PAGE_BYTES = 256 * 1024
"""About how many bytes of events a webhook has in memory at a time."""


@dataclass(frozen=True, slots=True)
class Found:
    """A place in the stream, and the event there; None for one that is not wanted, or a message that is no event."""

    ref: ClusterRef | None
    event: Event | None
    sequence: int
    stored_at: datetime | None


@dataclass(frozen=True, slots=True)
class Pages:
    """What follows a place in the stream of events of a tenant."""

    client: Client
    tenant: str
    stream: StreamEnd
    wanted: Callable[[str, str], bool]
    """Whether an event of a cluster and a kind is wanted; the others are not decoded."""

    async def after(self, progress: Progress) -> AsyncGenerator[list[Found]]:
        """The pages after a progress that fits the stream, up to its present end. Raises BusUnavailable.

        They also end where the stream was made anew meanwhile: then the sequences of the last page mean nothing.
        """
        wanted = subjects.events_of_tenant(TenantRef(tenant=self.tenant))
        sequence, since, more = progress.sequence, progress.since, True
        while more:
            page, more = await read_page(
                self.client, EVENT.name, wanted, after=sequence, since=since, max_bytes=PAGE_BYTES
            )
            if not page or (await stream_end(self.client, EVENT.name)).created != self.stream.created:
                return
            sequence, since = page[-1].sequence, None
            yield [_found(stored, self.wanted) for stored in page]


def _found(stored: Stored, wanted: Callable[[str, str], bool]) -> Found:
    nothing = Found(None, None, stored.sequence, stored.stored_at)
    try:
        about = subjects.parse(stored.subject)
        if not wanted(about.ref.cluster, about.rest):
            return nothing
        event = decode(Event, stored.body, stored.headers)
    except (InvalidMessage, UnknownSubject):
        # The archive makes a dead letter of it.
        return nothing
    return Found(about.ref, event, stored.sequence, stored.stored_at) if event.kind == about.rest else nothing
