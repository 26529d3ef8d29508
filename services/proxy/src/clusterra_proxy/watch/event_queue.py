"""Tells facts as events: in their order, each once, for as long as it takes."""

import asyncio
import itertools

import structlog
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.nats.bus import BusUnavailable, MessageRefused
from clusterra_runtime.nats.events import EventPublisher

from clusterra_proxy.watch.job_facts import Occurrence
from clusterra_proxy.watch.node_facts import NodeOccurrence

log = structlog.get_logger(__name__)

RETRY_SECONDS = 1.0


class Teller:
    """A queue of facts to be told. Their ids make a repetition harmless, so one that may have failed is told again."""

    def __init__(self, publisher: EventPublisher, ref: ClusterRef) -> None:
        self._publisher = publisher
        self._ref = ref
        self._queue: asyncio.Queue[Occurrence | NodeOccurrence] = asyncio.Queue()

    def tell(self, *occurrences: Occurrence | NodeOccurrence) -> None:
        """Put facts behind those that wait already."""
        for occurrence in occurrences:
            self._queue.put_nowait(occurrence)

    async def run(self) -> None:
        """Tell what comes, for ever."""
        while True:
            await self._tell(await self._queue.get())
            self._queue.task_done()

    async def finish(self) -> None:
        """Wait until everything has been told."""
        await self._queue.join()

    async def _tell(self, occurrence: Occurrence | NodeOccurrence) -> None:
        fact = occurrence.fact
        for attempt in itertools.count(1):
            try:
                await self._publisher.tell(self._ref, fact, version=occurrence.version, time=occurrence.time)
            except BusUnavailable as error:
                log.warning("fact_not_told_yet", kind=fact.kind, attempt=attempt, reason=str(error))
                await asyncio.sleep(RETRY_SECONDS)
            except MessageRefused as error:
                log.error("fact_refused", kind=fact.kind, reason=str(error))  # noqa: TRY400 - the text says it all
                return
            else:
                return
