"""Goes on after a position: from the stream while it has all that follows, otherwise from the archive."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from weakref import WeakValueDictionary

from clusterra_contracts.rpc.history import HistoryPage, ReadHistory
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.bus.event_feed import EventFeed, Scope, StreamedEvent
from clusterra_gateway.events.past import Pages

MAX_EVENTS = 20_000
"""How many events are read from the stream, those that the client may not see included. Further ones are read from the
archive, which does not keep the bus from its work."""
EVENTS_PER_PAUSE = 250
PAUSE_SECONDS = 0.05
"""Three times what it takes to read as many events."""
PAGE_EVENTS = 500
BEHIND_SECONDS = 0.5
MAX_BEHIND = 20
"""How often, and after which pauses, an archive is asked again that has come no further."""

NOT_RETAINED = '{"reason": "some events in between are no longer retained"}'
TOO_MANY = '{"reason": "too many events in between; the history of the cluster has them"}'


@dataclass(frozen=True, slots=True)
class Gap:
    """What follows is not told up to a position."""

    reason: str
    position: int


@dataclass(frozen=True, slots=True)
class Resumed:
    """Where a client goes on: in what, as whom, and in which history."""

    scope: Scope
    viewer: Viewer
    pages: Pages


class Resumptions:
    """Reads the events after a position, for each member one stream after the other."""

    def __init__(self, feed: EventFeed) -> None:
        self._feed = feed
        self._locks = WeakValueDictionary[str, asyncio.Lock]()

    async def events(self, member_id: str, resumed: Resumed, *, after: int) -> AsyncGenerator[StreamedEvent | Gap]:
        """Yield the events after a position, in the order of the stream; a gap at the end if some cannot be told.

        Those of the archive are visible to the viewer, those of the stream are not checked. Raises BusUnavailable.
        """
        lock = self._locks.setdefault(member_id, asyncio.Lock())
        async with lock:
            read, behind = 0, 0
            while True:
                retained = await self._feed.retained()
                if retained.follows(after) and read < MAX_EVENTS:
                    async for event in self._feed.replay(resumed.scope, after=after):
                        if read == MAX_EVENTS:
                            break
                        yield event
                        after, read = event.sequence, read + 1
                        if read % EVENTS_PER_PAUSE == 0:
                            await asyncio.sleep(PAUSE_SECONDS)
                    else:
                        return
                reason = TOO_MANY if retained.follows(after) else NOT_RETAINED
                page = await self._page(resumed, after) if after <= retained.last else None
                if page is None or page.follows_to is None or behind == MAX_BEHIND:
                    yield Gap(reason, retained.last)
                    return
                for position, told in zip(page.positions, page.events, strict=True):
                    yield StreamedEvent(position, told)
                behind = behind + 1 if page.follows_to == after else 0
                caught_up = page.follows_to >= retained.last
                after, read = page.follows_to, 0 if caught_up else read
                await asyncio.sleep(BEHIND_SECONDS if behind else PAUSE_SECONDS)

    async def _page(self, resumed: Resumed, after: int) -> HistoryPage | None:
        """A page of the archive; None if it does not answer. One of another form is of a release before."""
        try:
            page = await resumed.pages(ReadHistory(viewer=resumed.viewer, follows=after, limit=PAGE_EVENTS))
        except RpcFailed:
            return None
        return page if len(page.positions) == len(page.events) else None
