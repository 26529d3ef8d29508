"""The live feed of events: one reader of the stream per process, fanned out to subscriptions."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

import nats.errors
import nats.js.errors
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import InvalidMessage, decode
from clusterra_contracts.bus.subjects import Subject, UnknownSubject
from clusterra_contracts.bus.topology import EVENT
from clusterra_contracts.events import Event, Fact
from clusterra_contracts.identity import ClusterRef, TenantRef, now
from clusterra_runtime.nats.bus import BusUnavailable, Client
from clusterra_runtime.nats.direct import Stored, replay
from clusterra_runtime.nats.streams.follow import Follower
from prometheus_client import Counter, Gauge

from clusterra_gateway.bus.event_positions import EventPositions

QUEUE = 1000
"""Events that may wait for one client. A client that falls further behind is dropped and may resume by event id."""

DROPPED = Counter("clusterra_feed_dropped_total", "Streams ended because their client was too slow")


@dataclass(frozen=True, slots=True)
class StreamedEvent:
    """An event and its sequence in the EVENT stream, which is the same for every reader."""

    sequence: int
    event: Event


class Told:
    """Some events that follow each other, as all who may see the same are told them."""

    __slots__ = ("_encoded", "events")

    def __init__(self, events: Sequence[StreamedEvent]) -> None:
        self.events = events
        self._encoded: bytes | None = None

    def encoded(self, encode: Callable[[Sequence[StreamedEvent]], bytes]) -> bytes:
        """The events in the form of a stream, which is made once for all who are told."""
        if self._encoded is None:
            self._encoded = encode(self.events)
        return self._encoded


class SubscriberTooSlow(Exception):
    """More events arrived than the subscriber's queue can hold."""


class Subscription:
    """The visible events of one cluster or tenant from the moment of subscribing."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Told] = asyncio.Queue()
        self._held = 0
        """The events in the queue, at most QUEUE."""
        self._too_slow = False

    def offer(self, told: Told) -> None:
        """Queues events without waiting. After an overflow, drops them: a gap must not be hidden by later events."""
        if self._too_slow:
            return
        if self._held + len(told.events) > QUEUE:
            self._too_slow = True
            DROPPED.inc()
            return
        self._held += len(told.events)
        self._queue.put_nowait(told)

    def restart(self) -> None:
        """Clears the queue and an overflow, for a subscriber that reads the state instead of the events."""
        while not self._queue.empty():
            self._queue.get_nowait()
        self._held = 0
        self._too_slow = False

    async def next(self) -> Told:
        """The next events. After an overflow, raises SubscriberTooSlow once the queue is empty."""
        if self._too_slow and self._queue.empty():
            raise SubscriberTooSlow
        told = await self._queue.get()
        self._held -= len(told.events)
        return told

    async def wait(self, seconds: float) -> Told | None:
        """The next events; None when there are none within this time. Raises SubscriberTooSlow."""
        try:
            async with asyncio.timeout(seconds):
                return await self.next()
        except TimeoutError:
            return None


type Scope = ClusterRef | TenantRef
"""One cluster, or all clusters of a tenant, also those that it gets later."""


@dataclass(frozen=True, slots=True)
class _Audience:
    """Subscriptions that see the same events of a cluster: who sees an event is decided once for all of them."""

    visible: Callable[[Fact], bool]
    subscriptions: set[Subscription] = field(default_factory=set)

    def tell(self, events: Sequence[StreamedEvent]) -> None:
        """Offers the visible ones to all."""
        if seen := [each for each in events if self.visible(each.event.data)]:
            told = Told(seen)
            for subscription in self.subscriptions:
                subscription.offer(told)


type EventObserver = Callable[[ClusterRef, Event], None]

SUBSCRIBERS = Gauge("clusterra_feed_subscribers", "Streams that follow events now")


@dataclass(frozen=True, slots=True)
class RetainedRange:
    """The first and the last sequence that the stream retains. In an empty stream, the first is the higher one."""

    first: int
    last: int

    def follows(self, sequence: int) -> bool:
        """Whether the stream retains every event after this sequence."""
        return self.first - 1 <= sequence <= self.last


class EventFeed:
    """Reads the EVENT stream from now on and offers each event to the subscriptions of its cluster.

    The feed never waits for a subscriber. It reads on after the last event read, also after an outage: subscribers miss
    nothing that the stream retains.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._js = client.jetstream()
        self._audiences: defaultdict[Scope, dict[Hashable, _Audience]] = defaultdict(dict)
        self._follower = Follower(client, EVENT.name, EVENT.subjects[0], self._receive)
        self._observers: list[tuple[frozenset[str], EventObserver]] = []
        self._positions = EventPositions()

    @property
    def working(self) -> bool:
        """Whether the feed is reading events."""
        return self._follower.working

    @property
    def position(self) -> int | None:
        """The sequence of the last event that was read, from which a follower continues; None if not known yet.

        It may lag behind the end of the stream. So a state that is read afterwards reflects every event up to it. No
        request is sent.
        """
        return self._follower.position

    def reflected_at(self, *published_at: datetime | None) -> int | None:
        """The last sequence whose event, like all before it, is reflected in messages published at these times.

        Heartbeats and queue snapshots are published independently of events, so `position` would be too high for them.
        Times that are None do not count. None if the position is not known.
        """
        moments = [each for each in published_at if each is not None]
        return self._positions.reflected_at(min(moments)) if moments else None

    def observe(self, kinds: frozenset[str], observer: EventObserver) -> None:
        """Passes all events of these kinds, of every cluster, to an observer in this process. It must not raise."""
        self._observers.append((kinds, observer))

    @contextmanager
    def subscribe(
        self, scope: Scope, *, visible: Callable[[Fact], bool], audience: Hashable = None
    ) -> Iterator[Subscription]:
        """A subscription to those events of a cluster or tenant whose fact is visible, until the block ends.

        `audience`: what is equal for all to whom the same is visible, such as a viewer. None: for nobody else.
        """
        subscription = Subscription()
        key = subscription if audience is None else audience
        audiences = self._audiences[scope]
        audiences.setdefault(key, _Audience(visible)).subscriptions.add(subscription)
        SUBSCRIBERS.inc()
        try:
            yield subscription
        finally:
            SUBSCRIBERS.dec()
            audiences[key].subscriptions.discard(subscription)
            if not audiences[key].subscriptions:
                del audiences[key]
            if not audiences:
                self._audiences.pop(scope, None)

    async def run(self) -> None:
        """Reads for as long as the process lives."""
        await self._follower.run()

    async def retained(self) -> RetainedRange:
        """The events that the stream retains. Raises BusUnavailable."""
        try:
            state = (await self._js.stream_info(EVENT.name)).state
        except (nats.errors.Error, nats.js.errors.Error) as error:
            raise BusUnavailable(f"the stream {EVENT.name} does not answer ({error})") from error
        return RetainedRange(state.first_seq, state.last_seq)

    async def replay(self, scope: Scope, *, after: int) -> AsyncGenerator[StreamedEvent]:
        """The retained events of a cluster or tenant after a sequence. Raises BusUnavailable."""
        subject = subjects.events_of(scope) if isinstance(scope, ClusterRef) else subjects.events_of_tenant(scope)
        async for stored in replay(self._client, EVENT.name, subject, after=after):
            event = _event(stored.subject, stored.body, dict(stored.headers))
            if event is not None:
                yield StreamedEvent(stored.sequence, event)

    def _receive(self, page: Sequence[Stored]) -> None:
        self._note(page)
        told = defaultdict[Scope, list[StreamedEvent]](list)
        for stored in page:
            if (streamed := self._streamed(stored)) is not None:
                for scope in _scopes(streamed[0]):
                    told[scope].append(streamed[1])
        for scope, events in told.items():
            for audience in self._audiences.get(scope, {}).values():
                audience.tell(events)

    def _note(self, page: Sequence[Stored]) -> None:
        if page and (stored_at := page[-1].stored_at) is not None:
            self._positions.note(stored_at, page[-1].sequence)
        elif self._positions.empty and self.position is not None:
            self._positions.note(now(), self.position)

    def _streamed(self, stored: Stored) -> tuple[ClusterRef, StreamedEvent] | None:
        """An event of which somebody is told, with its cluster. Observers are told here."""
        parsed = _parsed(stored.subject)
        if parsed is None:
            return None
        observers = [observer for kinds, observer in self._observers if parsed.rest in kinds]
        scopes = _scopes(parsed.ref)
        if not observers and not any(scope in self._audiences for scope in scopes):
            return None
        event = _event(stored.subject, stored.body, dict(stored.headers))
        if event is None:
            return None
        for observer in observers:
            observer(parsed.ref, event)
        return parsed.ref, StreamedEvent(stored.sequence, event)


def _scopes(ref: ClusterRef) -> tuple[Scope, Scope]:
    return ref, TenantRef(tenant=ref.tenant)


def _parsed(subject: str) -> Subject | None:
    try:
        return subjects.parse(subject)
    except UnknownSubject:
        return None


def _event(subject: str, body: bytes, headers: dict[str, str] | None) -> Event | None:
    """The event; None for an invalid one. The archive reads the same stream and reports those to the operators."""
    try:
        event = decode(Event, body, headers)
        kind = subjects.parse(subject).rest
    except (InvalidMessage, UnknownSubject):
        return None
    return event if event.kind == kind else None
