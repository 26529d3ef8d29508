"""Publishes pending events in order, each once, with unlimited retries."""

import asyncio
import itertools
from dataclasses import dataclass
from datetime import datetime

import structlog
from clusterra_contracts.bus.envelope import TRACEPARENT
from clusterra_contracts.events import JobActionFact, JobFact, NodeFact
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime import trace
from clusterra_runtime.backoff import Backoff
from clusterra_runtime.nats.bus import BusUnavailable, MessageRejected
from clusterra_runtime.nats.events import EventPublisher

log = structlog.get_logger(__name__)

RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 30.0
MAX_EVENTS = 50_000
"""Maximum number of events that wait while the bus refuses them. With the longest names they take 120 MiB."""
MAX_NAME_BYTES = 64 * 1024 * 1024
"""Maximum size of the names of nodes in these events: one event may name thousands."""
_NAME_BYTES = 64
"""What a string takes besides its characters."""


@dataclass(frozen=True, slots=True)
class PendingEvent[F: JobFact | JobActionFact | NodeFact]:
    """A fact with the version and time of its event, and the trace that it belongs to."""

    fact: F
    version: str
    time: datetime
    traceparent: str = ""


class EventQueue:
    """A queue of pending events. An event whose publication may have failed is sent again: its id deduplicates it."""

    def __init__(self, publisher: EventPublisher, ref: ClusterRef) -> None:
        self._publisher = publisher
        self._ref = ref
        self._queue: asyncio.Queue[PendingEvent[JobFact | JobActionFact | NodeFact]] = asyncio.Queue()
        self._name_bytes = 0
        self._behind = False

    @property
    def accepts(self) -> bool:
        """Whether there is room for more events. Once there is none, no more are taken until `resume`.

        Observe nothing as published while this is False.
        """
        full = self._queue.qsize() >= MAX_EVENTS or self._name_bytes >= MAX_NAME_BYTES
        if not self._behind and full:
            self._behind = True
            log.warning("event_queue_full", cluster=self._ref.key, events=self._queue.qsize())
        return not self._behind

    async def caught_up(self) -> bool:
        """Return False if all events were taken. Else return True once those that were taken are published."""
        if self._behind:
            await self._queue.join()
        return self._behind

    def resume(self) -> None:
        """Take events again: the caller finds those that were not taken."""
        self._behind = False

    def put(self, *events: PendingEvent[JobFact | JobActionFact | NodeFact]) -> None:
        """Append events to the queue."""
        for event in events:
            self._name_bytes += _name_bytes(event.fact)
            self._queue.put_nowait(event)

    async def run(self) -> None:
        """Publish events as they are queued, forever."""
        while True:
            event = await self._queue.get()
            await self._publish(event)
            self._name_bytes -= _name_bytes(event.fact)
            self._queue.task_done()

    async def _publish(self, event: PendingEvent[JobFact | JobActionFact | NodeFact]) -> None:
        with trace.extract({TRACEPARENT: event.traceparent}):
            await self._publish_in_trace(event)

    async def _publish_in_trace(self, event: PendingEvent[JobFact | JobActionFact | NodeFact]) -> None:
        fact = event.fact
        backoff = Backoff(RETRY_SECONDS, LONGEST_RETRY_SECONDS)
        for attempt in itertools.count(1):
            try:
                await self._publisher.publish(self._ref, fact, version=event.version, time=event.time)
            except BusUnavailable as error:
                log.warning("fact_not_told_yet", kind=fact.kind, attempt=attempt, reason=str(error))
                await backoff.pause()
            except MessageRejected as error:
                log.error("fact_refused", kind=fact.kind, reason=str(error))  # noqa: TRY400 - the message is complete
                return
            else:
                return


def _name_bytes(fact: JobFact | JobActionFact | NodeFact) -> int:
    if not isinstance(fact, JobFact):
        return 0
    return sum(len(name) + _NAME_BYTES for names in (fact.nodes, fact.gpus) for name in names)
