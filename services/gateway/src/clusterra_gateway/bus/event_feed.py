"""The live feed of events: one JetStream consumer per process, fanned out to subscriptions."""

import secrets
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import nats.errors
import nats.js.errors
import structlog
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import InvalidMessage, decode
from clusterra_contracts.bus.subjects import UnknownSubject
from clusterra_contracts.bus.topology import EVENT
from clusterra_contracts.events import Event, Fact
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.backoff import Backoff
from clusterra_runtime.nats.bus import BusUnavailable, Client
from clusterra_runtime.nats.direct import replay
from clusterra_runtime.nats.pull import Pull
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from prometheus_client import Gauge

from clusterra_gateway.bus.subscription import StreamedEvent, Subscription

log = structlog.get_logger()

BATCH = 256
PULL_SECONDS = 30.0
INACTIVE_SECONDS = 300.0
"""The server deletes a consumer that nobody has pulled from for this long."""
RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 10.0

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

    The feed never waits for a subscriber. Its consumer lives in the server's memory. When the consumer is lost, the
    feed makes a new one that starts after the last event read: subscribers miss nothing that the stream retains.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._js = client.jetstream()
        self._subscriptions: defaultdict[ClusterRef, set[Subscription]] = defaultdict(set)
        self._last: int | None = None
        self._pull: Pull | None = None

    @property
    def working(self) -> bool:
        """Whether the feed is reading events."""
        return self._pull is not None and self._pull.served

    @contextmanager
    def subscribe(self, ref: ClusterRef, *, visible: Callable[[Fact], bool]) -> Iterator[Subscription]:
        """A subscription to those of a cluster's events whose fact is visible, until the block ends."""
        subscription = Subscription(visible)
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
        """Reads for as long as the process lives."""
        backoff = Backoff(RETRY_SECONDS, LONGEST_RETRY_SECONDS)
        while True:
            try:
                await self._read()
            except (nats.errors.Error, nats.js.errors.Error, BusUnavailable) as error:
                log.warning("feed_interrupted", reason=str(error))
            await backoff.pause()

    async def retained(self) -> RetainedRange:
        """The events that the stream retains. Raises BusUnavailable."""
        try:
            state = (await self._js.stream_info(EVENT.name)).state
        except (nats.errors.Error, nats.js.errors.Error) as error:
            raise BusUnavailable(f"the stream {EVENT.name} does not answer ({error})") from error
        return RetainedRange(state.first_seq, state.last_seq)

    async def replay(self, ref: ClusterRef, *, after: int) -> AsyncGenerator[StreamedEvent]:
        """A cluster's retained events after a sequence. Raises BusUnavailable."""
        async for stored in replay(self._client, EVENT.name, subjects.events_of(ref), after=after):
            event = _event(stored.subject, stored.body, dict(stored.headers))
            if event is not None:
                yield StreamedEvent(stored.sequence, event)

    async def _read(self) -> None:
        name = await self._add_consumer()
        pull = self._pull = await self._js.pull(EVENT.name, name, acknowledged=False)
        try:
            while pull.served:
                for message in await pull.fetch(BATCH, timeout=PULL_SECONDS):
                    self._last = message.metadata.sequence.stream
                    self._fan_out(message.subject, message.data, message.headers, self._last)
        finally:
            self._pull = None
            if not self._client.is_closed:
                await pull.unsubscribe()

    async def _add_consumer(self) -> str:
        newest = (await self.retained()).last
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

    def _fan_out(self, subject: str, body: bytes, headers: dict[str, str] | None, sequence: int) -> None:
        ref = _ref(subject)
        if ref is None or ref not in self._subscriptions:
            return
        event = _event(subject, body, headers)
        if event is not None:
            for subscription in self._subscriptions[ref]:
                subscription.offer(StreamedEvent(sequence, event))


def _ref(subject: str) -> ClusterRef | None:
    try:
        return subjects.parse(subject).ref
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
