"""Tells facts as events: in their order, each once, for as long as it takes."""

import asyncio
import itertools
from dataclasses import dataclass
from datetime import datetime

import structlog
from clusterra_contracts.events import JobFact, NodeFact
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.nats.bus import BusUnavailable, MessageRefused
from clusterra_runtime.nats.events import EventPublisher

log = structlog.get_logger(__name__)

RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class PendingEvent[F: JobFact | NodeFact]:
    """A fact with what makes its event."""

    fact: F
    version: str
    time: datetime


class EventQueue:
    """A queue of facts to be told. Their ids make a repetition harmless, so one that may have failed is told again."""

    def __init__(self, publisher: EventPublisher, ref: ClusterRef) -> None:
        self._publisher = publisher
        self._ref = ref
        self._queue: asyncio.Queue[PendingEvent[JobFact | NodeFact]] = asyncio.Queue()

    def put(self, *events: PendingEvent[JobFact | NodeFact]) -> None:
        """Put facts behind those that wait already."""
        for event in events:
            self._queue.put_nowait(event)

    async def run(self) -> None:
        """Tell what comes, for ever."""
        while True:
            await self._publish(await self._queue.get())

    async def _publish(self, event: PendingEvent[JobFact | NodeFact]) -> None:
        fact = event.fact
        for attempt in itertools.count(1):
            try:
                await self._publisher.tell(self._ref, fact, version=event.version, time=event.time)
            except BusUnavailable as error:
                log.warning("fact_not_told_yet", kind=fact.kind, attempt=attempt, reason=str(error))
                await asyncio.sleep(RETRY_SECONDS)
            except MessageRefused as error:
                log.error("fact_refused", kind=fact.kind, reason=str(error))  # noqa: TRY400 - the text says it all
                return
            else:
                return
