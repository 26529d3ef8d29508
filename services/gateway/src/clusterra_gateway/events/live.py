"""The live stream of events, of a cluster or of a tenant, from where a client was."""

from collections.abc import AsyncGenerator

from clusterra_contracts.rpc.visibility import may_see

from clusterra_gateway.bus.event_feed import EventFeed, StreamedEvent, SubscriberTooSlow
from clusterra_gateway.events.resuming import Gap, Resumed, Resumptions
from clusterra_gateway.http.answers.sse import ServerSentEvent


class LiveEvents:
    """Makes the streams of this process."""

    def __init__(self, feed: EventFeed) -> None:
        self._feed = feed
        self._resumptions = Resumptions(feed)

    async def events(self, member_id: str, resumed: Resumed, after: int | None) -> AsyncGenerator[ServerSentEvent]:
        """The events after a position, without end; None: from now on."""
        viewer = resumed.viewer
        with self._feed.subscribe(
            resumed.scope, visible=lambda fact: may_see(viewer, fact)
        ) as live:  # before the replay, so that no event is lost between the two
            if after is not None:
                async for event in self._resumptions.events(member_id, resumed, after=after):
                    if isinstance(event, Gap):
                        after = event.position
                        yield ServerSentEvent(event.reason, event="reset", id=after)
                        break
                    after = event.sequence
                    if may_see(viewer, event.event.data):
                        yield _encoded(event)
            try:
                while True:
                    event = await live.next()
                    if after is None or event.sequence > after:
                        yield _encoded(event)
            except SubscriberTooSlow:
                return  # the client reconnects and says where it was


def _encoded(event: StreamedEvent) -> ServerSentEvent:
    return ServerSentEvent(event.event.model_dump_json(), id=event.sequence)
