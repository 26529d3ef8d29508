"""One subscriber of the event feed: a bounded queue of events."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from clusterra_contracts.events import Event, Fact
from prometheus_client import Counter

QUEUE = 1000
"""Events that may wait for one client. A client that falls further behind is dropped and may resume by event id."""

DROPPED = Counter("clusterra_feed_dropped_total", "Streams ended because their client was too slow")


@dataclass(frozen=True, slots=True)
class StreamedEvent:
    """An event and its sequence in the EVENT stream, which is the same for every reader."""

    sequence: int
    event: Event


class SubscriberTooSlow(Exception):
    """More events arrived than the subscriber's queue can hold."""


class Subscription:
    """The visible events of one cluster from the moment of subscribing."""

    def __init__(self, visible: Callable[[Fact], bool]) -> None:
        self._visible = visible
        self._queue: asyncio.Queue[StreamedEvent] = asyncio.Queue(QUEUE)
        self._too_slow = False

    def offer(self, event: StreamedEvent) -> None:
        """Queues an event without waiting. After an overflow, drops it: a gap must not be hidden by later events."""
        if self._too_slow or not self._visible(event.event.data):
            return
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            self._too_slow = True
            DROPPED.inc()

    def restart(self) -> None:
        """Clears the queue and an overflow, for a subscriber that reads the state instead of the events."""
        while not self._queue.empty():
            self._queue.get_nowait()
        self._too_slow = False

    async def next(self) -> StreamedEvent:
        """The next event. After an overflow, raises SubscriberTooSlow once the queue is empty."""
        if self._too_slow and self._queue.empty():
            raise SubscriberTooSlow
        return await self._queue.get()

    async def wait(self, seconds: float) -> StreamedEvent | None:
        """The next event; None when there is none within this time. Raises SubscriberTooSlow."""
        try:
            async with asyncio.timeout(seconds):
                return await self.next()
        except TimeoutError:
            return None
