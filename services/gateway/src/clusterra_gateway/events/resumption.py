"""The events after a position, for a client that comes back to a stream: bounded, and no more than others can bear.

A stream retains up to 100,000 events of each kind of a cluster. To read them takes seconds of CPU, which all clients of
the gateway share.
"""

import asyncio
from collections.abc import AsyncGenerator
from weakref import WeakValueDictionary

from clusterra_contracts.identity import ClusterRef

from clusterra_gateway.bus.event_feed import EventFeed
from clusterra_gateway.bus.subscription import StreamedEvent

MAX_EVENTS = 20_000
"""Of one resumption, those that the client may not see included. A client that is further behind reads the history."""
EVENTS_PER_REST = 250
REST_SECONDS = 0.05
"""Three times what it takes to read as many events."""


class Resumptions:
    """Reads the events after a position, for each member one stream after the other."""

    def __init__(self, feed: EventFeed) -> None:
        self._feed = feed
        self._locks = WeakValueDictionary[str, asyncio.Lock]()

    async def events(self, member_id: str, ref: ClusterRef, *, after: int) -> AsyncGenerator[StreamedEvent | None]:
        """Yield a cluster's events after a position; None at the end if there are more. Raises BusUnavailable."""
        lock = self._locks.setdefault(member_id, asyncio.Lock())
        async with lock:
            count = 0
            async for event in self._feed.replay(ref, after=after):
                if count == MAX_EVENTS:
                    yield None
                    return
                yield event
                count += 1
                if count % EVENTS_PER_REST == 0:
                    await asyncio.sleep(REST_SECONDS)
