"""The live stream of events, of a cluster or of a tenant, from where a client was."""

from collections.abc import AsyncGenerator, Sequence

from clusterra_contracts.rpc.visibility import may_see, sight

from clusterra_gateway.bus.event_feed import EventFeed, StreamedEvent, SubscriberTooSlow
from clusterra_gateway.events.resuming import Gap, Resumed, Resumptions
from clusterra_gateway.http.answers.sse import EncodedEvents, ServerSentEvent, Written


class LiveEvents:
    """Makes the streams of this process."""

    def __init__(self, feed: EventFeed) -> None:
        self._feed = feed
        self._resumptions = Resumptions(feed)

    async def events(self, member_id: str, resumed: Resumed, after: int | None) -> AsyncGenerator[Written]:
        """The events after a position, without end; None: from now on."""
        viewer = resumed.viewer
        with self._feed.subscribe(
            resumed.scope, visible=lambda fact: may_see(viewer, fact), audience=sight(viewer)
        ) as live:  # before the replay, so that no event is lost between the two
            if after is not None:
                async for event in self._resumptions.events(member_id, resumed, after=after):
                    if isinstance(event, Gap):
                        after = event.position
                        yield ServerSentEvent(event.reason, event="reset", id=after)
                        break
                    after = event.sequence
                    if may_see(viewer, event.event.data):
                        yield _one(event)
            try:
                while True:
                    told = await live.next()
                    if after is None or told.events[0].sequence > after:
                        yield EncodedEvents(told.encoded(_encoded))
                    elif rest := [event for event in told.events if event.sequence > after]:
                        yield EncodedEvents(_encoded(rest))
            except SubscriberTooSlow:
                return  # the client reconnects and says where it was


def _encoded(events: Sequence[StreamedEvent]) -> bytes:
    return b"".join(_one(event).encode() for event in events)


def _one(event: StreamedEvent) -> ServerSentEvent:
    return ServerSentEvent(event.event.model_dump_json(), id=event.sequence)
