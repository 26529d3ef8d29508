"""The live feed of events: one consumer per process, fanned out to bounded queues."""

import asyncio
import secrets
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import nats.errors
import nats.js.errors
import structlog
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import InvalidMessage, decode
from clusterra_contracts.bus.subjects import UnknownSubject
from clusterra_contracts.bus.topology import EVENT
from clusterra_contracts.events import Event
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.nats.bus import BusUnavailable, Client
from clusterra_runtime.nats.direct import replay
from clusterra_runtime.nats.pull import Pull
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from prometheus_client import Counter, Gauge

log = structlog.get_logger()

QUEUE = 1000
"""Events that wait for one client; one that falls further behind is dropped and may resume by id."""
BATCH = 256
PULL_SECONDS = 30.0
INACTIVE_SECONDS = 300.0
"""After this long without us the server forgets our consumer."""
AGAIN_SECONDS = 1.0

SUBSCRIBERS = Gauge("clusterra_feed_subscribers", "Streams that follow events now")
DROPPED = Counter("clusterra_feed_dropped_total", "Streams ended because their client was too slow")


@dataclass(frozen=True, slots=True)
class Told:
    """An event and its sequence in the stream, which is its place for every reader."""

    sequence: int
    event: Event


@dataclass(frozen=True, slots=True)
class Kept:
    """The first and the last sequence that the stream has; the first is the higher one when it is empty."""

    first: int
    last: int

    def covers(self, sequence: int) -> bool:
        """Whether nothing was lost between this sequence and now."""
        return self.first - 1 <= sequence <= self.last


class TooSlow(Exception):
    """The subscriber fell behind by more than its queue holds."""


class Subscription:
    """The events of one cluster from the moment of subscribing, or only those about one entity."""

    def __init__(self, entity: str | None) -> None:
        self._entity = entity
        self._queue: asyncio.Queue[Told] = asyncio.Queue(QUEUE)
        self._too_slow = False

    def offer(self, told: Told) -> None:
        """Take an event without waiting."""
        if self._too_slow or (self._entity is not None and told.event.subject != self._entity):
            return
        try:
            self._queue.put_nowait(told)
        except asyncio.QueueFull:
            self._too_slow = True
            DROPPED.inc()

    async def next(self) -> Told:
        """The next event. Raises TooSlow once all that was taken is read."""
        if self._too_slow and self._queue.empty():
            raise TooSlow
        return await self._queue.get()

    async def wait(self, seconds: float) -> Told | None:
        """The next event, or None when there is none for so long."""
        try:
            async with asyncio.timeout(seconds):
                return await self.next()
        except TimeoutError:
            return None


class Feed:
    """Reads the EVENT stream from now on and hands each event to the subscriptions of its cluster.

    Nobody is ever waited for. The consumer lives in the server's memory; after it is lost, a new one starts behind
    the last event that was handed out, so subscribers miss nothing that the stream still has.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._js = client.jetstream()
        self._subscriptions: defaultdict[ClusterRef, set[Subscription]] = defaultdict(set)
        self._last: int | None = None
        self._pull: Pull | None = None

    @property
    def working(self) -> bool:
        """Whether events are being read."""
        return self._pull is not None and self._pull.served

    @contextmanager
    def subscribe(self, ref: ClusterRef, *, entity: str | None = None) -> Iterator[Subscription]:
        """Take part until the block ends."""
        subscription = Subscription(entity)
        self._subscriptions[ref].add(subscription)
        SUBSCRIBERS.inc()
        try:
            yield subscription
        finally:
            SUBSCRIBERS.dec()
            self._subscriptions[ref].discard(subscription)
            if not self._subscriptions[ref]:
                del self._subscriptions[ref]

    async def run(self) -> None:
        """Read for as long as the process lives."""
        while True:
            try:
                await self._read()
            except (nats.errors.Error, nats.js.errors.Error, BusUnavailable) as error:
                log.warning("feed_interrupted", reason=str(error))
            await asyncio.sleep(AGAIN_SECONDS)

    async def _read(self) -> None:
        name = await self._consumer()
        pull = self._pull = await self._js.pull(EVENT.name, name)
        try:
            while pull.served:
                for message in await pull.fetch(BATCH, timeout=PULL_SECONDS):
                    self._last = message.metadata.sequence.stream
                    self._hand_out(message.subject, message.data, message.headers, self._last)
        finally:
            self._pull = None
            if not self._client.is_closed:
                await pull.unsubscribe()

    async def _consumer(self) -> str:
        newest = (await self.kept()).last
        if self._last is None or self._last > newest:
            self._last = newest
        config = ConsumerConfig(
            name=f"feed-{secrets.token_hex(8)}",
            filter_subject=EVENT.subjects[0],
            ack_policy=AckPolicy.NONE,
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self._last + 1,
            inactive_threshold=INACTIVE_SECONDS,
            mem_storage=True,
        )
        info = await self._js.add_consumer(EVENT.name, config)
        return info.name

    def _hand_out(self, subject: str, body: bytes, headers: dict[str, str] | None, sequence: int) -> None:
        ref = _ref(subject)
        if ref is None or ref not in self._subscriptions:
            return
        event = _event(subject, body, headers)
        if event is not None:
            for subscription in self._subscriptions[ref]:
                subscription.offer(Told(sequence, event))

    async def kept(self) -> Kept:
        """What the stream has. Raises BusUnavailable."""
        try:
            state = (await self._js.stream_info(EVENT.name)).state
        except (nats.errors.Error, nats.js.errors.Error) as error:
            raise BusUnavailable(f"the stream {EVENT.name} does not answer ({error})") from error
        return Kept(state.first_seq, state.last_seq)

    async def past(self, ref: ClusterRef, *, after: int) -> AsyncGenerator[Told]:
        """A cluster's kept events behind a sequence. Raises BusUnavailable."""
        async for stored in replay(self._client, EVENT.name, subjects.events_of(ref), after=after):
            event = _event(stored.subject, stored.body, dict(stored.headers))
            if event is not None:
                yield Told(stored.sequence, event)


def _ref(subject: str) -> ClusterRef | None:
    try:
        return subjects.parse(subject).ref
    except UnknownSubject:
        return None


def _event(subject: str, body: bytes, headers: dict[str, str] | None) -> Event | None:
    """The event, None for garbage: the archive, which reads the same stream, tells the operators of it."""
    try:
        event = decode(Event, body, headers)
        told_as = subjects.parse(subject).rest
    except (InvalidMessage, UnknownSubject):
        return None
    return event if event.kind == told_as else None
